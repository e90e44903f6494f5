//go:build cluster

package e2e

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// controlPlane takes the control plane apart and puts it together again, while pods run on. The token is that of a pod.
func (x *tool) controlPlane(t *testing.T) {
	const readyz = "/readyz"
	t.Run("a component that is stopped stays so until it is started", func(t *testing.T) {
		x.on(t, "stop", "control-plane", "kube-apiserver", "kube-scheduler")
		if _, err := x.try(t, "get", "--raw", readyz); err == nil {
			t.Error("an API server that is stopped answers")
		}
		if tasks := x.on(t, "ctr", "node-1", "--", "tasks", "ls"); !strings.Contains(tasks, "RUNNING") {
			t.Errorf("no container runs:\n%s", tasks)
		}
		time.Sleep(3 * time.Second) // longer than the pause before a component is started again
		if got := x.status(t)["control-plane"].Components["kube-apiserver"]; got.PID != 0 || !got.Stopped {
			t.Errorf("status: %+v", got)
		}
		x.on(t, "start", "control-plane", "kube-apiserver", "kube-scheduler")
		x.k(t, "get", "--raw", readyz)
		if got := x.status(t)["control-plane"].Components["kube-scheduler"]; got.PID == 0 || got.Stopped {
			t.Errorf("status: %+v", got)
		}
	})
	t.Run("an unknown component is refused with the names of the known", func(t *testing.T) {
		_, err := try(t.Context(), x.cluster, "stop", "--name", clusterName, "node-1", "etcd")
		if err == nil || !strings.Contains(err.Error(), "containerd kube-proxy kubelet") {
			t.Error(err)
		}
	})
	t.Run("objects go back in time with a snapshot", func(t *testing.T) {
		snapshot := filepath.Join(t.TempDir(), "snapshot")
		x.k(t, "create", "configmap", "before")
		x.on(t, "snapshot", "save", snapshot)
		x.k(t, "delete", "configmap", "before")
		x.k(t, "create", "configmap", "after")
		x.on(t, "snapshot", "restore", snapshot)
		if got := x.k(t, "get", "configmaps", "-o", "name"); !strings.Contains(got, "configmap/before") || strings.Contains(got, "configmap/after") {
			t.Errorf("after the restore there are\n%s", got)
		}
		x.k(t, "delete", "configmap", "before")
		// All of it runs, and makes pods.
		x.k(t, "create", "job", "later", "--image=example.test/app:1", "--", "/app", "get", "http://web/")
		x.k(t, "wait", "--for=condition=Complete", "job/later", "--timeout=1m")
	})
	t.Run("the signing key rotates with overlap", func(t *testing.T) {
		keys := func() (n int) {
			var set struct{ Keys []json.RawMessage }
			if err := json.Unmarshal([]byte(x.k(t, "get", "--raw", "/openid/v1/jwks")), &set); err != nil {
				t.Fatal(err)
			}
			return len(set.Keys)
		}
		token := func() string { return strings.TrimSpace(x.k(t, "create", "token", "default")) }
		good := func(token string) bool {
			_, err := x.try(t, "--token", token, "--kubeconfig", "/dev/null", "--server", x.server(t), "--insecure-skip-tls-verify", "get", "--raw", "/api")
			return err == nil
		}
		first := token()
		x.on(t, "signing-key", "add")
		if n := keys(); n != 2 {
			t.Errorf("%d keys are published", n)
		}
		second := token()
		x.on(t, "signing-key", "use")
		third := token()
		for i, token := range []string{first, second, third} {
			if !good(token) {
				t.Errorf("token %d is refused while both keys hold", i+1)
			}
		}
		x.on(t, "signing-key", "retire")
		if good(first) || good(second) || !good(third) {
			t.Errorf("after the former key retired: %t %t %t, want false false true", good(first), good(second), good(third))
		}
		if n := keys(); n != 1 {
			t.Errorf("%d keys are published", n)
		}
	})
}

func (x *tool) try(t *testing.T, args ...string) (string, error) {
	t.Helper()
	return try(t.Context(), x.kubectl, append([]string{"--kubeconfig", x.kubeconfig}, args...)...)
}

func (x *tool) server(t *testing.T) string {
	t.Helper()
	return x.k(t, "config", "view", "-o", "jsonpath={.clusters[0].cluster.server}")
}
