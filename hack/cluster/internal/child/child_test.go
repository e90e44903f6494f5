package child

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/workpulling/workpulling/hack/cluster/internal/poll"
	"github.com/workpulling/workpulling/hack/cluster/internal/state"
)

// TestMain lets the test's program play the parent that is killed.
func TestMain(m *testing.M) {
	if os.Getenv("CHILD_TEST_PARENT") != "" {
		cmd := exec.Command("sh", "-c", "echo $$; exec sleep 600")
		cmd.Stdout = os.Stdout
		Run(cmd)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

func TestAChildDiesWithItsParent(t *testing.T) {
	parent := exec.Command(os.Args[0])
	parent.Env = append(os.Environ(), "CHILD_TEST_PARENT=1")
	out, err := parent.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := parent.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		t.Fatal(err)
	}
	child, err := state.Identify(pid)
	if err != nil {
		t.Fatal(err)
	}
	parent.Process.Kill()
	io.Copy(io.Discard, out) // until the child, too, has let go of the pipe
	parent.Wait()
	err = poll.Until(t.Context(), 10*time.Second, "the end of the child", func(context.Context) error {
		if child.Alive() {
			return errors.New("the child lives on")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestRunReportsTheExit(t *testing.T) {
	if err := Run(exec.Command("true")); err != nil {
		t.Error(err)
	}
	if err := Run(exec.Command("false")); err == nil {
		t.Error("no error")
	}
}
