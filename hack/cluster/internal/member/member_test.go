package member

import (
	"bytes"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

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

func TestOrdersStopAndStart(t *testing.T) {
	dir := t.TempDir()
	s := newSupervisor(dir)
	go s.reap()
	go s.keep(component.Component{Name: "sleeper", Args: []string{"/bin/sleep", "600"}})
	status := func() Status {
		all, err := LoadStatuses(dir)
		if err != nil {
			t.Fatal(err)
		}
		return all["sleeper"]
	}
	until := func(what string, holds func(Status) bool) Status {
		t.Helper()
		for deadline := time.Now().Add(10 * time.Second); !holds(status()); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %+v", what, status())
			}
		}
		return status()
	}
	first := until("it does not run", func(st Status) bool { return st.PID != 0 })

	s.obey(Orders{Stopped: []string{"sleeper"}})
	until("it was not stopped", func(st Status) bool { return st.Stopped && st.PID == 0 })
	time.Sleep(2 * pause)
	if st := status(); st.PID != 0 || st.Restarts != 0 || !st.Stopped {
		t.Errorf("a component that is to be stopped: %+v", st)
	}

	s.obey(Orders{})
	second := until("it was not started again", func(st Status) bool { return st.PID != 0 })
	if second.PID == first.PID || second.Stopped || second.Restarts != 0 {
		t.Errorf("first %+v, then %+v", first, second)
	}

	// One that dies by itself is started again, and counted.
	if err := syscall.Kill(second.PID, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	third := until("it was not kept running", func(st Status) bool { return st.Restarts == 1 && st.PID != 0 })
	s.obey(Orders{Stopped: []string{"sleeper"}})
	until("process "+strconv.Itoa(third.PID)+" was not stopped", func(st Status) bool { return st.PID == 0 })
}

func TestOrdersTravel(t *testing.T) {
	path := filepath.Join(t.TempDir(), "orders.json")
	if got, err := LoadOrders(path); err != nil || len(got.Stopped) != 0 {
		t.Errorf("before the first: %v, %v", got, err)
	}
	told := make(chan os.Signal, 1)
	signal.Notify(told, orderSignal)
	defer signal.Stop(told)
	want := Orders{Stopped: []string{"etcd", "kubelet"}}
	if err := want.Give(path, os.Getpid()); err != nil {
		t.Fatal(err)
	}
	<-told
	got, err := LoadOrders(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
