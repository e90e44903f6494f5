//go:build cluster

package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

func TestTwoNodes(t *testing.T) {
	x := newTool(t)
	x.down(t) // of an earlier run
	before := look(t)
	x.up(t, "--nodes", "2")
	defer before.same(t)
	defer x.down(t)
	x.up(t, "--nodes", "2") // again, which changes nothing
	x.loadApp(t)
	x.k(t, "apply", "-f", "objects.yaml")
	x.k(t, "rollout", "status", "statefulset/web", "--timeout=2m")
	x.k(t, "rollout", "status", "statefulset/store", "--timeout=2m")

	t.Run("pods are on both nodes", func(t *testing.T) {
		nodes := x.k(t, "get", "pods", "-l", "app=web", "-o", "jsonpath={.items[*].spec.nodeName}")
		if !strings.Contains(nodes, "node-1") || !strings.Contains(nodes, "node-2") {
			t.Errorf("on %s", nodes)
		}
	})
	t.Run("names, Services and pods are reached from pods of both nodes", func(t *testing.T) {
		for _, from := range []string{"web-0", "web-1"} {
			for _, to := range []string{"web-0", "web-1"} {
				url := "http://" + to + ".web-pods.default.svc.cluster.local:8080/"
				if got := x.k(t, "exec", from, "-c", "app", "--", "/app", "get", url); got != to {
					t.Errorf("%s got %q from %s", from, got, to)
				}
			}
			seen := map[string]bool{}
			eventually(t, 30*time.Second, func() error {
				seen[x.k(t, "exec", from, "-c", "app", "--", "/app", "get", "http://web/")] = true
				if len(seen) < 2 {
					return fmt.Errorf("%s reaches only %v through the Service", from, seen)
				}
				return nil
			})
			if got := x.k(t, "exec", from, "-c", "app", "--", "/app", "get", "http://localhost:8081/"); got != from {
				t.Errorf("the sidecar of %s answers %q", from, got)
			}
		}
	})
	t.Run("no name and no address outside is reached", func(t *testing.T) {
		for _, url := range []string{"http://example.com/", "http://192.0.2.1/"} {
			start := time.Now()
			_, err := try(t.Context(), x.kubectl, "--kubeconfig", x.kubeconfig, "exec", "web-0", "-c", "app", "--", "/app", "get", url)
			if err == nil {
				t.Errorf("%s was reached", url)
			}
			if took := time.Since(start); took > 4*time.Second {
				t.Errorf("%s: it took %s to find out", url, took)
			}
		}
	})
	t.Run("the machine reaches pods, Services and node ports", func(t *testing.T) {
		pod := x.k(t, "get", "pod", "web-1", "-o", "jsonpath={.status.podIP}")
		service := x.k(t, "get", "service", "web", "-o", "jsonpath={.spec.clusterIP}")
		node := x.k(t, "get", "node", "node-2", "-o", "jsonpath={.status.addresses[0].address}")
		for _, url := range []string{"http://" + pod + ":8080/", "http://" + service + "/", "http://" + node + ":30080/"} {
			if _, err := get(url); err != nil {
				t.Error(err)
			}
		}
	})
	t.Run("logs and port-forward work", func(t *testing.T) {
		if got := x.k(t, "logs", "web-0", "-c", "sidecar"); !strings.Contains(got, "serving at :8081") {
			t.Errorf("log %q", got)
		}
		x.portForward(t)
	})
	t.Run("a volume keeps its data when the pod is replaced", func(t *testing.T) {
		x.volume(t)
	})
	t.Run("Pod Security admission refuses", func(t *testing.T) {
		x.k(t, "create", "namespace", "strict")
		x.k(t, "label", "namespace", "strict", "pod-security.kubernetes.io/enforce=restricted")
		_, err := try(t.Context(), x.kubectl, "--kubeconfig", x.kubeconfig, "-n", "strict", "run", "p", "--image=example.test/app:1", "--privileged")
		if err == nil || !strings.Contains(err.Error(), "violates PodSecurity") {
			t.Errorf("a privileged pod: %v", err)
		}
	})
	t.Run("a node that is cut off runs on", func(t *testing.T) {
		x.partition(t)
	})
	t.Run("a component that dies is started again", func(t *testing.T) {
		x.on(t, "nsenter", "node-1", "--", "kill", "-9", strconv.Itoa(x.status(t)["node-1"].Components["kubelet"].PID))
		eventually(t, time.Minute, func() error {
			if status := x.status(t); status["node-1"].Components["kubelet"].Restarts == 0 || status["node-1"].Components["kubelet"].PID == 0 {
				return fmt.Errorf("kubelet: %+v", status["node-1"].Components["kubelet"])
			}
			return nil
		})
		x.k(t, "wait", "--for=condition=Ready", "node/node-1", "--timeout=1m")
	})
	x.controlPlane(t)
}

func get(url string) (string, error) {
	response, err := (&http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{DisableKeepAlives: true}}).Get(url)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s: %s", url, response.Status, body)
	}
	return string(body), err
}

func (x *tool) portForward(t *testing.T) {
	cmd := exec.CommandContext(t.Context(), x.kubectl, "--kubeconfig", x.kubeconfig, "port-forward", "service/web", ":80")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer cmd.Process.Kill()
	var address string
	if _, err := fmt.Fscanf(out, "Forwarding from %s -> 8080\n", &address); err != nil {
		t.Fatal(err)
	}
	if _, err := get("http://" + address + "/"); err != nil {
		t.Error(err)
	}
}

func (x *tool) volume(t *testing.T) {
	address := func() string {
		return "http://" + x.k(t, "get", "pod", "store-0", "-o", "jsonpath={.status.podIP}") + ":8080/data/note"
	}
	request, err := http.NewRequest(http.MethodPut, address(), strings.NewReader("kept"))
	if err != nil {
		t.Fatal(err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	if text, _ := io.ReadAll(response.Body); response.StatusCode != http.StatusOK {
		t.Fatalf("writing: %s %s", response.Status, text)
	}
	response.Body.Close()
	x.k(t, "delete", "pod", "store-0")
	x.k(t, "rollout", "status", "statefulset/store", "--timeout=1m")
	if got, err := get(address()); got != "kept" {
		t.Errorf("the new pod reads %q, %v", got, err)
	}
	volume := strings.TrimSpace(x.k(t, "get", "pvc", "data-store-0", "-o", "jsonpath={.spec.volumeName}"))
	x.k(t, "delete", "statefulset", "store")
	x.k(t, "delete", "pvc", "data-store-0")
	x.k(t, "wait", "--for=delete", "pv/"+volume, "--timeout=1m")
}

func (x *tool) partition(t *testing.T) {
	pod := "web-0"
	if x.k(t, "get", "pod", pod, "-o", "jsonpath={.spec.nodeName}") != "node-2" {
		pod = "web-1"
	}
	url := "http://" + x.k(t, "get", "pod", pod, "-o", "jsonpath={.status.podIP}") + ":8080/"
	x.on(t, "partition", "node-2")
	if got, err := get(url); err == nil {
		t.Errorf("reached through the cut: %s", got)
	}
	if !x.status(t)["node-2"].CutOff {
		t.Error("status does not tell that node-2 is cut off")
	}
	// From within the node the pod answers as before.
	if tasks := x.on(t, "ctr", "node-2", "--", "tasks", "ls"); strings.Count(tasks, "RUNNING") < 3 {
		t.Errorf("tasks on the node that is cut off:\n%s", tasks)
	}
	x.on(t, "heal", "node-2")
	eventually(t, 30*time.Second, func() error {
		_, err := get(url)
		return err
	})
	x.k(t, "wait", "--for=condition=Ready", "node/node-2", "--timeout=1m")
}

type memberStatus struct {
	Name       string
	CutOff     bool
	Components map[string]struct {
		PID, Restarts int
		Stopped       bool
	}
}

func (x *tool) status(t *testing.T) map[string]memberStatus {
	t.Helper()
	var s struct{ Members []memberStatus }
	if err := json.Unmarshal([]byte(x.on(t, "status", "-o", "json")), &s); err != nil {
		t.Fatal(err)
	}
	out := map[string]memberStatus{}
	for _, m := range s.Members {
		out[m.Name] = m
	}
	return out
}

// TestKilledHalfWay kills "up" at several points of its way. Afterwards "down", or the next "up", finds everything.
func TestKilledHalfWay(t *testing.T) {
	x := newTool(t)
	x.down(t)
	before := look(t)
	for _, line := range []string{"logs in ", "the API server is ready", "is Ready"} {
		t.Run("after: "+line, func(t *testing.T) {
			defer before.same(t)
			defer x.down(t)
			x.killUpAt(t, line)
		})
	}
	t.Run("the next up succeeds, and down copes with dead members", func(t *testing.T) {
		defer before.same(t)
		defer x.down(t)
		x.killUpAt(t, "the API server is ready")
		x.up(t)
		var status struct {
			Members []struct{ PID int }
		}
		if err := json.Unmarshal([]byte(x.on(t, "status", "-o", "json")), &status); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(status.Members[1].PID, syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		eventually(t, 10*time.Second, func() error {
			if out := x.on(t, "status"); !strings.Contains(out, "Broken") {
				return errors.New(out)
			}
			return nil
		})
	})
	t.Run("an interrupted up cleans up by itself", func(t *testing.T) {
		defer before.same(t)
		x.endUpAt(t, "the API server is ready", os.Interrupt)
	})
}

func (x *tool) killUpAt(t *testing.T, line string) {
	t.Helper()
	x.endUpAt(t, line, os.Kill)
}

// endUpAt sends "up" a signal when it has said the line, and waits for its end.
func (x *tool) endUpAt(t *testing.T, line string, s os.Signal) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, x.cluster, "up", "--name", clusterName)
	errs, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for buffer := make([]byte, 4096); !strings.Contains(said.String(), line); {
		n, err := errs.Read(buffer)
		said.Write(buffer[:n])
		if err != nil {
			t.Fatalf("up never said %q:\n%s", line, said.String())
		}
	}
	if err := cmd.Process.Signal(s); err != nil {
		t.Fatal(err)
	}
	io.Copy(&said, errs)
	if err := cmd.Wait(); err == nil {
		t.Fatalf("up was not ended in time:\n%s", said.String())
	}
}

// TestTwoControlPlanesAtOnce is about the control plane of integration tests, which needs neither root nor nodes.
func TestTwoControlPlanesAtOnce(t *testing.T) {
	x := newTool(t)
	type running struct {
		cmd   *exec.Cmd
		stdin io.Closer
		out   io.Reader
	}
	var all []running
	start := time.Now()
	for range 2 {
		cmd := exec.CommandContext(t.Context(), x.cluster, "control-plane", "--quiet")
		stdin, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all = append(all, running{cmd, stdin, out})
	}
	var kubeconfigs []string
	for _, r := range all {
		var path string
		if _, err := fmt.Fscanln(r.out, &path); err != nil {
			t.Fatal(err)
		}
		kubeconfigs = append(kubeconfigs, path)
	}
	t.Logf("two control planes are ready after %.1f s", time.Since(start).Seconds())
	for i, path := range kubeconfigs {
		name := fmt.Sprintf("only-in-%d", i)
		run(t, x.kubectl, "--kubeconfig", path, "create", "deployment", name, "--image=none")
		eventually(t, 30*time.Second, func() error {
			_, err := try(t.Context(), x.kubectl, "--kubeconfig", path, "wait", "--for=create", "pod", "-l", "app="+name, "--timeout=20s")
			return err
		})
		if got := run(t, x.kubectl, "--kubeconfig", path, "get", "deployments", "-o", "name"); strings.TrimSpace(got) != "deployment.apps/"+name {
			t.Errorf("control plane %d has %q", i, got)
		}
	}
	// The first loses its stdin, as with a test that ends; the second is killed.
	all[0].stdin.Close()
	if err := all[0].cmd.Wait(); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(kubeconfigs[0]); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("its data is still there: %v", err)
	}
	children := childrenOf(t, all[1].cmd.Process.Pid)
	if len(children) != 3 {
		t.Errorf("etcd, API server and controllers are %d processes", len(children))
	}
	all[1].cmd.Process.Kill()
	all[1].cmd.Wait()
	for _, child := range children {
		eventually(t, 10*time.Second, func() error {
			if child.Alive() {
				return fmt.Errorf("process %d outlives its parent", child.PID)
			}
			return nil
		})
	}
}

func childrenOf(t *testing.T, parent int) []state.Process {
	t.Helper()
	var out []state.Process
	for _, pid := range strings.Fields(run(t, "ps", "-o", "pid=", "--ppid", strconv.Itoa(parent))) {
		number, err := strconv.Atoi(pid)
		if err != nil {
			t.Fatal(err)
		}
		p, err := state.Identify(number)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, p)
	}
	return out
}
