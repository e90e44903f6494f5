package prestop

import (
	"os"
	"path/filepath"
	"testing"
)

func TestInstallReplacesWhatIsThere(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from"), filepath.Join(dir, "bin-prestop")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(from, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := install(from, to); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(to)
		if err != nil || string(got) != content {
			t.Fatalf("copy = %q, %v; want %q", got, err, content)
		}
		info, err := os.Stat(to)
		if err != nil || info.Mode().Perm() != 0o755 {
			t.Fatalf("mode = %v, %v", info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".prestop-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	if err := install(filepath.Join(dir, "missing"), to); err == nil {
		t.Error("a missing program was installed")
	}
}
