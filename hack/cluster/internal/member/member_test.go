package member

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/hack/cluster/internal/component"
)

func TestConfigTravels(t *testing.T) {
	want := Config{
		Hostname: "node-1", LogDir: "/logs", Keep: []string{"/state"}, Binds: []Bind{{From: "/a", To: "/b"}}, Forward: true,
		Components: []component.Component{{Name: "kubelet", Args: []string{"/kube", "kubelet"}, After: "unix:/run/x"}},
	}
	var pipe bytes.Buffer
	if err := want.Send(&pipe); err != nil {
		t.Fatal(err)
	}
	got, err := receive(&pipe)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestAStarterThatDiesEndsTheMember(t *testing.T) {
	read, write := io.Pipe()
	write.Close()
	if _, err := receive(read); err == nil {
		t.Error("a member without configuration went on")
	}
}

func TestRunRefusesToBeAnOrdinaryProcess(t *testing.T) {
	if err := Run(); err == nil {
		t.Error("it ran")
	}
}

func TestStatuses(t *testing.T) {
	dir := t.TempDir()
	if got, err := LoadStatuses(dir); err != nil || len(got) != 0 {
		t.Errorf("before the first: %v, %v", got, err)
	}
	s := newSupervisor(dir)
	s.note("kubelet", func(st *Status) { st.PID = 7 })
	s.note("kubelet", func(st *Status) { st.PID = 0; st.Restarts++; st.LastEnd = "exit code 1" })
	got, err := LoadStatuses(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Statuses{"kubelet": {Restarts: 1, LastEnd: "exit code 1"}}, got); diff != "" {
		t.Error(diff)
	}
}

func TestHolds(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	if holds("unix:" + socket) {
		t.Error("nobody listens yet")
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if !holds("unix:" + socket) {
		t.Error("somebody listens")
	}
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := tcp.Addr().String()
	if !holds("tcp:" + address) {
		t.Error("somebody listens")
	}
	tcp.Close()
	if holds("ready:" + address) {
		t.Error("no API server is there")
	}
}
