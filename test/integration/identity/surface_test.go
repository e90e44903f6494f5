//go:build integration

package identity

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
	"github.com/workpulling/workpulling/sidecar/intake"
	"github.com/workpulling/workpulling/sidecar/producer"
	"github.com/workpulling/workpulling/test/integration/environment"
)

// street translates the loopback of the test into the addresses of pods: 127.77.0.2 is 10.77.0.2.
type street struct{ *fencing.Neighbours }

func (s street) Admit(ctx context.Context, address netip.Addr) (transport.Submitter, error) {
	return s.Neighbours.Admit(ctx, netip.MustParseAddr(strings.Replace(address.String(), "127.", "10.", 1)))
}

// door is the intake of a real producer sidecar, which asks a real API server who calls.
type door struct {
	*site
	address, host string
	authority     *transporttest.Authority
}

func (s *site) open() *door {
	s.t.Helper()
	d := &door{site: s, authority: transporttest.NewAuthority(s.t), host: runtimeconfig.ProducerHost(flow, s.namespace), address: transporttest.FreeAddress(s.t)}
	dir := s.t.TempDir()
	certFile, keyFile := d.authority.Issue(s.t, d.host)
	must(s.t, os.Rename(certFile, filepath.Join(dir, "tls.crt")))
	must(s.t, os.Rename(keyFile, filepath.Join(dir, "tls.key")))
	text, _, err := runtimeconfig.Marshal(runtimeconfig.Producer{
		Namespace: s.namespace, Flow: flow, FlowUID: "flow-uid", QueueType: "Memory", Intake: runtimeconfig.IntakeOpen,
		BacklogMaxJobs: 1000, BacklogMaxBytes: 1 << 30, DeduplicationSec: 600,
	})
	must(s.t, err)
	must(s.t, os.WriteFile(filepath.Join(dir, "config.json"), []byte(text), 0o600))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		err := producer.Run(ctx, producer.Options{
			Log: logr.Discard(), Incarnation: protocol.Incarnation{PodUID: "producer-uid", BootNonce: "boot"}, ConfigFile: filepath.Join(dir, "config.json"),
			CAFile: d.authority.CAFile(), TLSDir: dir, APIDir: dir, DataDir: dir, LossFile: filepath.Join(dir, "loss"), HaltFile: filepath.Join(dir, "halt"),
			TransportAddress: transporttest.FreeAddress(s.t), IntakeAddress: d.address, ConfigPoll: time.Second, Authenticator: s.guard,
			Neighbours: func(func() bool) intake.Neighbours { return street{s.guard.Neighbours()} },
		})
		if err != nil {
			s.t.Error(err)
		}
	})
	s.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	transporttest.Eventually(s.t, "the intake takes jobs", func() bool {
		return d.call("POST", "jobs", s.token("submitter", nil, runtimeconfig.TokenAudience), "127.0.0.1") == "served"
	})
	return d
}

// call is the name of the refusal of a call from an address, or "served".
func (d *door) call(method, path, token, from string) string {
	d.t.Helper()
	dialer := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	client := http.Client{Transport: &http.Transport{
		DisableKeepAlives: true, TLSClientConfig: transport.ClientTLS(d.authority.CAFile(), d.host),
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, network, d.address)
		},
	}}
	request, err := http.NewRequestWithContext(d.t.Context(), method, "https://"+d.host+"/v1/flows/"+flow+"/"+path, strings.NewReader("x"))
	must(d.t, err)
	request.Header.Set("Idempotency-Key", "key")
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		return err.Error()
	}
	defer response.Body.Close()
	raw, _ := io.ReadAll(response.Body)
	switch response.StatusCode {
	case http.StatusUnauthorized, http.StatusForbidden, http.StatusServiceUnavailable:
		var problem struct {
			Type string `json:"type"`
		}
		must(d.t, json.Unmarshal(raw, &problem))
		return strings.TrimPrefix(problem.Type, intake.ProblemBase)
	case http.StatusAccepted, http.StatusOK, http.StatusNotFound, http.StatusBadRequest: // of a decision without a body that says why
		return "served"
	}
	return fmt.Sprint(response.StatusCode, " ", string(raw))
}

// live makes a pod that runs at an address, as kubelet would say it.
func (d *door) live(name, address string, edit func(*corev1.Pod)) *corev1.Pod {
	d.t.Helper()
	pod := &corev1.Pod{
		ObjectMeta: d.meta(name), Spec: corev1.PodSpec{ServiceAccountName: "worker", Containers: []corev1.Container{{Name: "app", Image: "none"}}},
	}
	edit(pod)
	phase := pod.Status.Phase
	d.create(pod)
	pod.Status.Phase, pod.Status.PodIP, pod.Status.PodIPs = phase, address, []corev1.PodIP{{IP: address}}
	must(d.t, d.env.Client.Status().Update(d.t.Context(), pod))
	return pod
}

// The table of test/surface, in short, with the tokens and the pods of a real API server.
func TestTheIntakeAgainstARealAPIServer(t *testing.T) {
	s := newSite(t)
	d := s.open()
	audience := runtimeconfig.TokenAudience
	elsewhere, err := s.env.Namespace(t.Context(), "elsewhere")
	must(t, err)
	t.Cleanup(func() { must(t, s.env.DeleteNamespace(context.Background(), elsewhere)) })
	s.create(&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "submitter", Namespace: elsewhere}})
	foreign, err := environment.RequestToken(t.Context(), s.env.Client, elsewhere, "submitter", authenticationv1.TokenRequestSpec{Audiences: []string{audience}})
	must(t, err)
	tokens := map[string]string{
		"nothing": "", "garbage": "e30.e30.e30", "for the API server": s.token("submitter", nil), "for another audience": s.token("submitter", nil, "vault"),
		"of another namespace": foreign, "without rights to submit": s.token("stranger", nil, audience), "a submitter's": s.token("submitter", nil, audience),
		"tampered": tampered(s.token("submitter", nil, audience)),
	}
	for _, row := range []struct{ token, submit, look, list, drop string }{
		{"nothing", "token-missing", "token-missing", "token-missing", "token-missing"},
		{"garbage", "token-invalid", "token-invalid", "token-invalid", "token-invalid"},
		{"tampered", "token-signature", "token-signature", "token-signature", "token-signature"},
		{"for the API server", "token-default-audience", "token-default-audience", "token-default-audience", "token-default-audience"},
		{"for another audience", "token-audience", "token-audience", "token-audience", "token-audience"},
		{"of another namespace", "forbidden", "forbidden", "forbidden", "forbidden"},
		{"without rights to submit", "forbidden", "served", "forbidden", "forbidden"}, // the namespace may look jobs up
		{"a submitter's", "served", "served", "forbidden", "forbidden"},
	} {
		for call, want := range map[[2]string]string{
			{"POST", "jobs"}: row.submit, {"GET", "jobs/some"}: row.look, {"GET", "dead-letters"}: row.list, {"DELETE", "dead-letters/1"}: row.drop,
		} {
			if got := d.call(call[0], call[1], tokens[row.token], "127.0.0.1"); got != want {
				t.Errorf("%s %s with %s: %s, want %s", call[0], call[1], row.token, got, want)
			}
		}
	}
	d.trustedNamespace(tokens["for another audience"])
}

// trustedNamespace: pods are found by the addresses of their status, by the watch and by the field selector of the look.
func (d *door) trustedNamespace(refused string) {
	d.t.Helper()
	web := d.live("web", "10.77.0.2", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	d.live("agent", "10.77.0.3", func(p *corev1.Pod) { p.Status.Phase, p.Spec.HostNetwork = corev1.PodRunning, true })
	d.live("done", "10.77.0.4", func(p *corev1.Pod) { p.Status.Phase = corev1.PodSucceeded })
	if got := d.call("POST", "jobs", "", "127.77.0.2"); got != "token-missing" {
		d.t.Errorf("before the switch: %s", got)
	}
	d.trusted.Store(true)
	transporttest.Eventually(d.t, "a pod submits without a token", func() bool { return d.call("POST", "jobs", "", "127.77.0.2") == "served" })
	for from, want := range map[string]string{"127.77.0.3": "address-host", "127.77.0.4": "address-finished", "127.77.0.9": "address-unknown"} {
		if got := d.call("POST", "jobs", "", from); got != want {
			d.t.Errorf("from %s: %s, want %s", from, got, want)
		}
	}
	if got := d.call("POST", "jobs", refused, "127.77.0.2"); got != "token-audience" {
		d.t.Errorf("with a token that is refused: %s", got)
	}
	if got := d.call("GET", "dead-letters", "", "127.77.0.2"); got != "token-missing" {
		d.t.Errorf("dead letters: %s", got)
	}
	d.live("young", "10.77.0.5", func(p *corev1.Pod) { p.Status.Phase = corev1.PodRunning })
	if got := d.call("POST", "jobs", "", "127.77.0.5"); got != "served" { // by the watch or, where that is behind, by the look
		d.t.Errorf("a pod of a moment ago: %s", got)
	}
	must(d.t, d.env.Client.Delete(d.t.Context(), web, client.GracePeriodSeconds(0)))
	transporttest.Eventually(d.t, "a pod that is gone submits no more", func() bool { return d.call("POST", "jobs", "", "127.77.0.2") == "address-unknown" })
	d.trusted.Store(false)
	if got := d.call("POST", "jobs", "", "127.77.0.5"); got != "token-missing" {
		d.t.Errorf("after the switch: %s", got)
	}
}
