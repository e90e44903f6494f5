package standalone

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/manifest"
)

const testFlow = `apiVersion: workpulling.dev/v1alpha1
kind: WorkPullingFlow
metadata:
  name: orders
spec:
  queue:
    type: %s
---
`

// loaded is the set of a manifest text.
func loaded(t *testing.T, text string) (*manifest.Set, string) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "m.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	set, err := manifest.Load(t.Context(), []string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return &set, dir
}

// pool is a WorkerPool, with the fields of its only container.
func pool(name string, container ...string) string {
	return fmt.Sprintf(`apiVersion: workpulling.dev/v1alpha1
kind: WorkerPool
metadata:
  name: %s
spec:
  flows: [orders]
  replicas: 2
  drain: {timeoutSeconds: 40}
  template:
    metadata:
      labels:
        tier: back
    spec:
      terminationGracePeriodSeconds: 77
      containers:
        - name: app
          image: example.test/app
          %s
---
`, name, strings.Join(container, "\n          "))
}

func TestPlan(t *testing.T) {
	set, dir := loaded(t, fmt.Sprintf(testFlow, "Memory")+pool("packers",
		"command: [sh, -c]", `args: ["exec app --port=$(PORT) --as=$(NAME) $(OTHER)"]`,
		"env:", "- {name: NAME, valueFrom: {fieldRef: {fieldPath: metadata.name}}}", "- {name: GREETING, value: hello $(NAME)}",
		"- {name: PORT, value: \"1\"}", "- {name: TIER, valueFrom: {fieldRef: {fieldPath: \"metadata.labels['tier']\"}}}",
		"- {name: MEMORY, valueFrom: {resourceFieldRef: {resource: limits.memory, divisor: 1Mi}}}",
		"- {name: KEY, valueFrom: {secretKeyRef: {name: keys, key: one}}}",
		"- {name: NONE, valueFrom: {secretKeyRef: {name: keys, key: two, optional: true}}}",
		"- {name: GIVEN, valueFrom: {secretKeyRef: {name: nowhere, key: x}}}",
		"envFrom:", "- {prefix: S_, configMapRef: {name: settings}}",
		"resources: {limits: {memory: 64Mi}}")+
		"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: settings}\ndata: {LEVEL: high}\n---\n"+
		"apiVersion: v1\nkind: Secret\nmetadata: {name: keys}\nstringData: {one: k1}\n")
	p, err := newPlan(set, Options{Environment: map[string][]string{"packers": {"GIVEN=by hand"}}, Replicas: map[string]int{"packers": 3}})
	if err != nil {
		t.Fatal(err)
	}
	planned := p.pools[0]
	if planned.replicas != 3 || planned.dir != dir || planned.grace.Seconds() != 37 {
		t.Errorf("%d replicas in %s with %s", planned.replicas, planned.dir, planned.grace)
	}
	e, err := planned.environment(set, []string{"PATH=/bin", "PORT=9", "LEVEL=low"}, 1, 20001, "")
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"GIVEN=by hand", "GREETING=hello packers-1", "HOSTNAME=packers-1", "KEY=k1", "LEVEL=low", "MEMORY=64", "NAME=packers-1",
		"PATH=/bin", "PORT=20001", "S_LEVEL=high", "TIER=back",
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(e.pairs()))); diff != "" {
		t.Errorf("environment (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"sh", "-c", "exec app --port=20001 --as=packers-1 $(OTHER)"}, planned.argv(e)); diff != "" {
		t.Errorf("command (-want +got):\n%s", diff)
	}
}

// A command of a person is a shell's, in the current directory, and keeps its dollar signs.
func TestPlanOfAShellCommand(t *testing.T) {
	set, _ := loaded(t, fmt.Sprintf(testFlow, "Memory")+pool("packers", "workingDir: /nowhere"))
	p, err := newPlan(set, Options{Commands: map[string]string{"packers": "echo $(date) $PORT"}})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"/bin/sh", "-c", "echo $(date) $PORT"}, p.pools[0].argv(newEnvironment(nil))); diff != "" || p.pools[0].dir != "" {
		t.Errorf("in %q (-want +got):\n%s", p.pools[0].dir, diff)
	}
}

func TestPlanRefuses(t *testing.T) {
	memory, runs := fmt.Sprintf(testFlow, "Memory"), pool("packers", "command: [sh]")
	postgres := strings.Replace(fmt.Sprintf(testFlow, "PostgreSQL"), "---\n", "    postgreSQL: {connectionSecretRef: {name: db}}\n---\n", 1)
	for name, c := range map[string]struct {
		text    string
		options Options
		want    string
	}{
		"no command":             {memory + pool("packers"), Options{}, "--command packers='python3 app.py'"},
		"arguments alone":        {memory + pool("packers", "args: [work]"), Options{}, "no command"},
		"no such program":        {memory + pool("packers", "command: [no-such-program]"), Options{}, "cannot be started on this machine"},
		"no such directory":      {memory + pool("packers", "command: [sh]", "workingDir: /nowhere"), Options{}, "no directory of this machine"},
		"no flow":                {runs, Options{}, "pulls from the flow orders of namespace default, which is not in the manifests"},
		"another pool":           {memory + runs, Options{Replicas: map[string]int{"packer": 1}}, "--replicas names packer, which is not in the manifests: there are packers"},
		"one port for two":       {memory + runs, Options{Ports: map[string]int{"packers": 8080}}, "2 replicas cannot share one port"},
		"no connection string":   {postgres + runs, Options{}, "--dsn orders=env:DATABASE_URL"},
		"a connection string":    {postgres + runs, Options{Connections: map[string]string{"orders": "postgres://u:p@h/d"}}, "everybody on this machine can read"},
		"a variable that is not": {postgres + runs, Options{Connections: map[string]string{"orders": "env:NOT_SET"}}, "this variable is not set"},
		"a connection to memory": {memory + runs, Options{Connections: map[string]string{"orders": "env:X"}}, "the queue of this flow is Memory"},
		"one name in two places": {memory + runs + strings.Replace(memory, "name: orders", "name: orders\n  namespace: shop", 1), Options{}, "names of their own"},
	} {
		t.Run(name, func(t *testing.T) {
			set, _ := loaded(t, c.text)
			if _, err := newPlan(set, c.options); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("refused with %v, want %q", err, c.want)
			}
		})
	}
}

// What a run leaves out is said.
func TestPlanNotes(t *testing.T) {
	set, _ := loaded(t, fmt.Sprintf(testFlow, "Memory")+strings.Replace(fmt.Sprintf(testFlow, "Memory"), "orders", "idle", 1)+
		pool("packers", "command: [sh]", "volumeMounts: [{name: v, mountPath: /v}]", "")+"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n")
	p, err := newPlan(set, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Namespace x is not needed here", "volumes are not mounted", "no pool pulls from the flow idle"} {
		if !slices.ContainsFunc(p.notes, func(note string) bool { return strings.Contains(note, want) }) {
			t.Errorf("nothing says %q in %q", want, p.notes)
		}
	}
}

func TestAssignments(t *testing.T) {
	numbers, err := Numbers("replicas", []string{"a=1", "b=2"}, 0, 9)
	if err != nil || !maps.Equal(numbers, map[string]int{"a": 1, "b": 2}) {
		t.Errorf("%v, %v", numbers, err)
	}
	for _, bad := range [][]string{{"a"}, {"=1"}, {"a=x"}, {"a=10"}, {"a=1", "a=2"}, {"a="}} {
		if numbers, err := Numbers("replicas", bad, 0, 9); err == nil {
			t.Errorf("%q gave %v", bad, numbers)
		}
	}
	variables, err := Variables("env", []string{"a=X=1=2", "a=Y="})
	if diff := cmp.Diff(map[string][]string{"a": {"X=1=2", "Y="}}, variables); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	for _, bad := range []string{"a", "a=X", "=X=1", "a==1"} {
		if variables, err := Variables("env", []string{bad}); err == nil {
			t.Errorf("%q gave %v", bad, variables)
		}
	}
}
