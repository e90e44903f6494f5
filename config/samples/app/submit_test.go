package main

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// intakeStub takes each document at its third submission, but never one called "bad".
type intakeStub struct {
	mu   sync.Mutex
	seen map[string]int
}

func (s *intakeStub) ServeHTTP(answer http.ResponseWriter, request *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	id := request.Header.Get("Ce-Id")
	if request.Method == http.MethodGet {
		id = strings.TrimPrefix(request.URL.Path, "/v1/flows/f/jobs//s|")
	}
	s.seen[id]++
	switch {
	case id == "bad":
		http.Error(answer, "no", http.StatusRequestEntityTooLarge)
	case s.seen[id] == 1:
		answer.WriteHeader(http.StatusTooManyRequests)
	case s.seen[id] == 2:
		// The answer is lost after the job was stored.
		connection, _, err := answer.(http.Hijacker).Hijack()
		if err == nil {
			err = connection.Close()
		}
		if err != nil {
			panic(err)
		}
	default:
		state := "stored"
		if s.seen[id] == 4 {
			state = "confirmed"
		}
		if err := json.NewEncoder(answer).Encode(receipt{ID: id, State: state}); err != nil {
			panic(err)
		}
	}
}

func TestSubmitRepeatsUnderTheSameID(t *testing.T) {
	stub := &intakeStub{seen: map[string]int{}}
	socket := filepath.Join(t.TempDir(), "intake.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &httptest.Server{Listener: listener, Config: &http.Server{Handler: stub}}
	server.Start()
	defer server.Close()

	directory := t.TempDir()
	for _, name := range []string{"a", "b", "bad"} {
		if err := os.WriteFile(filepath.Join(directory, name), []byte(name), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var counts tally
	paths, err := documents(directory)
	if err != nil {
		t.Fatal(err)
	}
	if err := doAll(t.Context(), submitFile, socketIntake(socket, "f", "/s"), directory, paths, 2, &counts); err == nil {
		t.Error("a refused document was passed over")
	}
	want := Progress{Total: 3, Accepted: 2, Known: 2, Refused: 1, Repeats: 4, Done: true}
	if diff := cmp.Diff(want, counts.progress(3, true)); diff != "" {
		t.Errorf("progress (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"a": 3, "b": 3, "bad": 1}, stub.seen); diff != "" {
		t.Errorf("submissions (-want +got):\n%s", diff)
	}
}

func TestConfirmedWaits(t *testing.T) {
	stub := &intakeStub{seen: map[string]int{}}
	server := httptest.NewServer(stub)
	defer server.Close()
	intake := &intakeClient{jobs: server.URL + "/v1/flows/f/jobs", client: server.Client(), source: "/s"}
	if r, err := intake.confirmed(t.Context(), "a"); err != nil || r.State != "confirmed" || stub.seen["a"] != 4 {
		t.Errorf("confirmed = %+v, %v after %d looks, want it at the fourth", r, err, stub.seen["a"])
	}
	if _, err := intake.confirmed(t.Context(), "bad"); err == nil {
		t.Error("a refused look-up was passed over")
	}
}

func TestDocumentsOfAConfigMapVolume(t *testing.T) {
	directory := t.TempDir()
	hidden := filepath.Join(directory, "..2026_01_01")
	for _, err := range []error{
		os.Mkdir(hidden, 0o700),
		os.WriteFile(filepath.Join(hidden, "a.txt"), []byte("a"), 0o600),
		os.Symlink("..2026_01_01", filepath.Join(directory, "..data")),
		os.Symlink("..data/a.txt", filepath.Join(directory, "a.txt")),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	got, err := documents(directory)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.txt"}, got); diff != "" {
		t.Errorf("documents (-want +got):\n%s", diff)
	}
}

func TestUnpackStaysInItsDirectory(t *testing.T) {
	archive := func(name string) *bytes.Buffer {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&tar.Header{Name: name, Size: 1, Mode: 0o600, Typeflag: tar.TypeReg}); err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte("x")); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		return &b
	}
	directory := filepath.Join(t.TempDir(), "made")
	if count, err := unpack(archive("sub/dir/file"), directory); err != nil || count != 1 {
		t.Errorf("unpack = %d, %v, want 1 file", count, err)
	}
	if _, err := unpack(archive("../outside"), directory); err == nil {
		t.Error("a file was written outside the directory")
	}
}
