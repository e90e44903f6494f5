package local

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// wanted are settings of the whole machine without which several nodes do not fit on it: each kubelet, containerd and
// controller watches files, and all of them are the same user. They are raised only, and "down" puts back what was.
var wanted = map[string]int{
	"fs.inotify.max_user_instances": 1024,
	"fs.inotify.max_user_watches":   524288,
}

// sysctls reads and writes settings below a directory that is /proc/sys except in tests.
type sysctls struct{ root string }

func (s sysctls) path(name string) string {
	return filepath.Join(s.root, strings.ReplaceAll(name, ".", "/"))
}

func (s sysctls) get(name string) (int, error) {
	text, err := os.ReadFile(s.path(name))
	if err != nil {
		return 0, fmt.Errorf("reading setting %s: %w", name, err)
	}
	return strconv.Atoi(strings.TrimSpace(string(text)))
}

func (s sysctls) set(name string, value int) error {
	if err := os.WriteFile(s.path(name), []byte(strconv.Itoa(value)), 0); err != nil {
		return fmt.Errorf("changing setting %s: %w", name, err)
	}
	return nil
}

// tooLow gives the present values of the settings that are below what is wanted.
func (s sysctls) tooLow() (map[string]int, error) {
	low := map[string]int{}
	for name, want := range wanted {
		has, err := s.get(name)
		if err != nil {
			return nil, err
		}
		if has < want {
			low[name] = has
		}
	}
	return low, nil
}

// raise changes the settings in low to what is wanted.
func (s sysctls) raise(low map[string]int) error {
	for name := range low {
		if err := s.set(name, wanted[name]); err != nil {
			return err
		}
	}
	return nil
}

// restore puts the settings back, unless somebody else changed them since.
func (s sysctls) restore(low map[string]int) error {
	for name, before := range low {
		if has, err := s.get(name); err != nil || has != wanted[name] {
			continue
		}
		if err := s.set(name, before); err != nil {
			return err
		}
	}
	return nil
}
