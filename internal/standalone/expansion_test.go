package standalone

import "testing"

// The cases are those of Kubernetes' own expansion.
func TestExpand(t *testing.T) {
	values := map[string]string{"A": "a", "B": "$(A)", "EMPTY": ""}
	lookup := func(name string) (string, bool) {
		value, ok := values[name]
		return value, ok
	}
	for text, want := range map[string]string{
		"":               "",
		"plain":          "plain",
		"$(A)":           "a",
		"x$(A)y$(A)":     "xaya",
		"$(B)":           "$(A)", // a value is not expanded again
		"$(EMPTY)":       "",
		"$(UNKNOWN)":     "$(UNKNOWN)",
		"$$(A)":          "$(A)",
		"$$$(A)":         "$a",
		"$$$$(A)":        "$$(A)",
		"$A":             "$A",
		"$":              "$",
		"a$":             "a$",
		"$(A":            "$(A",
		"$($(A))":        "$($(A))",
		"$()":            "$()",
		"--port=$(A)$$x": "--port=a$x",
	} {
		if got := expand(text, lookup); got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}
