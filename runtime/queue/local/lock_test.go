package local_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/runtime/queue/local"
)

func init() { children["holder"] = holderChild }

// holderChild holds the queue until it is killed.
func holderChild() {
	options := childOptions()
	options.Holder = "pod orders-producer-0 of UID first"
	if _, err := local.Open(context.Background(), options); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held")
	select {}
}

// A process that is kept out is told by whom, and gets in when that process has ended, however it ended.
func TestAnotherProcessHoldsTheDirectory(t *testing.T) {
	dir := t.TempDir()
	child := exec.CommandContext(t.Context(), os.Args[0])
	child.Env = append(os.Environ(), childVariable+"=holder", dirVariable+"="+dir)
	output, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if line, _ := bufio.NewReader(output).ReadString('\n'); line != "held\n" {
		t.Fatalf("the child says %q", line)
	}
	options := local.Options{Dir: dir, FlowUID: "uid-1", LockWait: -1}
	if _, err := local.Open(t.Context(), options); !errors.Is(err, local.ErrLocked) || !strings.Contains(err.Error(), "pod orders-producer-0 of UID first") {
		t.Fatalf("error %v, want locked by the child", err)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait()
	options.LockWait = time.Minute
	q, err := local.Open(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	defer q.Close()
	options.LockWait = -1
	want := fmt.Sprintf("process %d on host ", os.Getpid())
	if _, err := local.Open(t.Context(), options); !errors.Is(err, local.ErrLocked) || !strings.Contains(err.Error(), want) {
		t.Errorf("error %v, want locked by %q", err, want)
	}
}

// Who holds the directory is for people: a text that is none keeps nobody from saying that it is locked.
func TestTheHoldersNameIsNotTrusted(t *testing.T) {
	for name, text := range map[string]string{"empty": "", "binary": "\xff\xfe", "several lines": "a\nb", "cut inside a character": strings.Repeat("ä", 300)[1:]} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			open(t, dir)
			if err := os.WriteFile(filepath.Join(dir, "queue.lock"), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			_, err := local.Open(t.Context(), local.Options{Dir: dir, FlowUID: "uid-1", LockWait: -1})
			if !errors.Is(err, local.ErrLocked) || !strings.HasSuffix(err.Error(), local.ErrLocked.Error()) {
				t.Errorf("error %v", err)
			}
		})
	}
}
