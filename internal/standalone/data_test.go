package standalone

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/workpulling/workpulling/api/v1alpha1"
	"github.com/workpulling/workpulling/internal/manifest"
)

func opens(t *testing.T, dir string) *data {
	t.Helper()
	d, err := openData(dir)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// What one run keeps the next one finds, and nothing of what was its own.
func TestData(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "data")
	flow := manifest.Flow{WorkPullingFlow: &v1alpha1.WorkPullingFlow{ObjectMeta: metav1.ObjectMeta{Namespace: "run", Name: "token"}}}
	uid := func(d *data) string {
		t.Helper()
		uid, err := d.uid(flow)
		if err != nil {
			t.Fatal(err)
		}
		return uid
	}
	first := opens(t, dir)
	made := uid(first)
	if _, err := openData(dir); err == nil || !strings.Contains(err.Error(), "another run uses") {
		t.Errorf("a second run beside the first: %v", err)
	}
	if err := os.WriteFile(first.run("token"), []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	first.lock.Close() // as if it were killed

	second := opens(t, dir)
	defer second.close()
	if left, err := os.ReadDir(second.run()); err != nil || len(left) > 0 {
		t.Errorf("left of the first run: %v, %v", left, err)
	}
	if again := uid(second); again != made || !strings.HasPrefix(made, "standalone-") {
		t.Errorf("the flow is %q and then %q", made, again)
	}
	flow.UID = types.UID("given")
	if got := uid(second); got != "given" {
		t.Errorf("a flow with a UID of its own is %q", got)
	}
}

// A directory that is somebody else's stays as it is.
func TestDataOfSomebodyElse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "run", "precious")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := openData(dir); err == nil {
		t.Error("took a directory with other things in it")
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
}
