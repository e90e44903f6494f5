package child

import (
	"bufio"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

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
	for deadline := time.Now().Add(10 * time.Second); child.Alive(); {
		if time.Now().After(deadline) {
			t.Fatal("the child lives on")
		}
		time.Sleep(time.Millisecond)
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
