package config_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/go-logr/logr/testr"
	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/sidecar/config"
)

type settings struct {
	Name string `json:"name"`
}

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	if _, err := config.Read[settings](path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	for text, want := range map[string]string{
		`{"name":"a"}`:                   "a",
		`{"name":"b","fromTheFuture":1}`: "b",
		`{}`:                             "",
	} {
		write(t, path, text)
		got, err := config.Read[settings](path)
		if err != nil || got.Value.Name != want || got.Hash != runtimeconfig.Hash([]byte(text)) {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "{", `{"name":1}`, "null and more"} {
		write(t, path, text)
		if _, err := config.Read[settings](path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// follow watches path from its present content on; changes are the names that came.
func follow(t *testing.T, path string, log logr.Logger) (changes <-chan string) {
	t.Helper()
	first, err := config.Read[settings](path)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	seen := make(chan string)
	var watching sync.WaitGroup
	watching.Go(func() {
		config.Watch(ctx, log, path, first, time.Millisecond, func(next config.Document[settings]) {
			select {
			case seen <- next.Value.Name:
			case <-ctx.Done():
			}
		})
	})
	t.Cleanup(func() {
		cancel()
		watching.Wait()
	})
	return seen
}

// What cannot be read changes nothing and is complained about once for each change; its repair arrives.
func TestWatchSurvivesABrokenFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "config.json")
	write(t, path, `{"name":"a"}`)
	complaints, repairs := make(chan struct{}, 100), make(chan struct{}, 100)
	changes := follow(t, path, funcr.New(func(_, text string) {
		switch {
		case strings.Contains(text, "Keeping the last good"):
			complaints <- struct{}{}
		case strings.Contains(text, "can be read again"):
			repairs <- struct{}{}
		}
	}, funcr.Options{}))

	write(t, path, `{"name":`)
	<-complaints
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	<-complaints
	write(t, path, `{"name":"a"}`) // as it was: nothing to apply
	<-repairs
	write(t, path, `{"name":`)
	<-complaints // the words of the first one, about another change
	write(t, path, `{"name":"b"}`)
	<-repairs
	if got := <-changes; got != "b" {
		t.Errorf("the first change is %q, want b", got)
	}
	if n := len(complaints) + len(repairs); n != 0 {
		t.Errorf("%d lines too many", n)
	}
}

// Kubelet writes a new directory and swaps a symbolic link above the file, which itself is a link through that one.
func TestWatchFollowsASwappedLink(t *testing.T) {
	volume := t.TempDir()
	publish := func(version, name string) {
		t.Helper()
		dir := filepath.Join(volume, version)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		write(t, filepath.Join(dir, "config.json"), `{"name":"`+name+`"}`)
		link := filepath.Join(volume, "..data")
		if err := os.Symlink(version, link+"_tmp"); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(link+"_tmp", link); err != nil {
			t.Fatal(err)
		}
	}
	publish("..v1", "a")
	path := filepath.Join(volume, "config.json")
	if err := os.Symlink(filepath.Join("..data", "config.json"), path); err != nil {
		t.Fatal(err)
	}
	changes := follow(t, path, testr.New(t))
	publish("..v2", "b")
	got := []string{<-changes}
	publish("..v3", "b") // nothing changes
	if err := os.RemoveAll(filepath.Join(volume, "..v1")); err != nil {
		t.Fatal(err)
	}
	publish("..v4", "c")
	got = append(got, <-changes)
	if diff := cmp.Diff([]string{"b", "c"}, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
