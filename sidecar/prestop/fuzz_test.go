package prestop_test

import (
	"testing"

	"github.com/workpulling/workpulling/sidecar/prestop"
)

// FuzzParseHook decodes any text: it is a hook that can be run, none at all, or an error.
func FuzzParseHook(f *testing.F) {
	f.Add("")
	f.Add(`{"exec":{"command":["sh","-c","true"]}}`)
	f.Add(`{"httpGet":{"path":"/","port":8080,"host":"h","scheme":"HTTP","httpHeaders":[{"name":"a","value":"b"}]}}`)
	f.Add(`{"httpGet":{"port":"name"}}`)
	f.Add(`{"sleep":{"seconds":-1}}`)
	f.Add(`{"exec":null,"sleep":{}}`)
	f.Fuzz(func(t *testing.T, text string) {
		hook, err := prestop.ParseHook(text)
		switch {
		case err != nil && hook != nil:
			t.Errorf("a hook and an error: %v", err)
		case err == nil && (hook == nil) != (text == ""):
			t.Errorf("%q is hook %v", text, hook)
		case hook != nil && hook.Exec == nil && hook.HTTPGet == nil && hook.Sleep == nil:
			t.Errorf("%q does nothing", text)
		}
	})
}
