package main

import (
	"bytes"
	"errors"
	"runtime/debug"
	"strings"
	"testing"
)

// called runs a command line that ends before anything is started.
func called(t *testing.T, arguments ...string) (output string, err error) {
	t.Helper()
	var out bytes.Buffer
	cmd := command()
	cmd.SetArgs(arguments)
	cmd.SetOut(&out)
	err = cmd.ExecuteContext(t.Context())
	return out.String(), err
}

func TestWrongCalls(t *testing.T) {
	for want, arguments := range map[string][]string{
		"say what to run with -f FILE":             {"run"},
		"unknown flag: --file":                     {"run", "--file", "x"},
		"--replicas a=501: a number between 0":     {"run", "-f", "x", "--replicas", "a=501"},
		"--port a=0: a number between 1 and 65535": {"run", "-f", "x", "--port", "a=0"},
		`--command "a" is not of the form`:         {"run", "-f", "x", "--command", "a"},
		`--env "a=B" is not of the form`:           {"run", "-f", "x", "--env", "a=B"},
		"--output yaml: text and json are known":   {"run", "-f", "x", "-o", "yaml"},
		"--intake-token 42: per-run and none":      {"run", "-f", "x", "--intake-token", "42"},
		"--log-level":                              {"run", "-f", "x", "--log-level", "loud"},
		`invalid argument "soon"`:                  {"run", "-f", "x", "--exit-when-empty=soon"},
	} {
		usage := new(usageError)
		if _, err := called(t, arguments...); !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", arguments, err, want)
		}
	}
}

// What cannot be run is no wrong call.
func TestManifestsThatAreNotThere(t *testing.T) {
	usage := new(usageError)
	if _, err := called(t, "run", "-f", t.TempDir()+"/none.yaml"); err == nil || errors.As(err, &usage) {
		t.Errorf("%v", err)
	}
}

func TestVersion(t *testing.T) {
	output, err := called(t, "version")
	if err != nil || !strings.HasPrefix(output, "workpulling ") || strings.Count(output, " ") < 3 {
		t.Errorf("%q, %v", output, err)
	}
	revision := &debug.BuildInfo{Main: debug.Module{Version: "(devel)"}, Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "abc"}}}
	for _, c := range []struct {
		linked string
		info   *debug.BuildInfo
		want   string
	}{
		{"v1", revision, "v1"},
		{"", revision, "abc"},
		{"", &debug.BuildInfo{Main: debug.Module{Version: "v2"}}, "v2"},
		{"", &debug.BuildInfo{}, "unknown"},
		{"", nil, "unknown"},
	} {
		if got := versionOf(c.linked, c.info); got != c.want {
			t.Errorf("versionOf(%q, %v) = %q, want %q", c.linked, c.info, got, c.want)
		}
	}
}
