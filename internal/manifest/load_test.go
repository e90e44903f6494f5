package manifest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const (
	flowYAML = `apiVersion: workpulling.dev/v1alpha1
kind: WorkPullingFlow
metadata:
  name: orders
`
	poolYAML = `apiVersion: workpulling.dev/v1alpha1
kind: WorkerPool
metadata:
  name: packers
  namespace: shop
spec:
  flows: [orders]
  template:
    spec:
      containers:
        - name: app
          image: example.test/app
`
)

// tree writes files below a new directory and returns it.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// found is what is in a set, one line each.
func found(set Set, dir string) (lines []string) {
	for _, f := range set.Flows {
		lines = append(lines, "flow "+f.Namespace+"/"+f.Name+" "+f.At.String())
	}
	for _, p := range set.Pools {
		lines = append(lines, "pool "+p.Namespace+"/"+p.Name+" "+p.At.String())
	}
	for _, c := range set.ConfigMaps {
		lines = append(lines, "ConfigMap "+c.Namespace+"/"+c.Name)
	}
	for _, s := range set.Secrets {
		lines = append(lines, "Secret "+s.Namespace+"/"+s.Name+" "+string(s.Data["key"]))
	}
	for _, s := range set.Skipped {
		lines = append(lines, "skipped "+s.String())
	}
	for i := range lines {
		lines[i] = strings.ReplaceAll(lines[i], dir+string(filepath.Separator), "")
	}
	return lines
}

func TestLoad(t *testing.T) {
	for name, c := range map[string]struct {
		files map[string]string
		paths []string // of the directory; none is the directory itself
		stdin string
		want  []string
	}{
		"one document": {
			files: map[string]string{"flow.yaml": flowYAML},
			want:  []string{"flow default/orders flow.yaml:2"},
		},
		"several documents, some of them empty": {
			files: map[string]string{"all.yaml": "# a comment\n---\n" + flowYAML + "---\n# nothing\n---\n" + poolYAML + "---\n"},
			want:  []string{"flow default/orders all.yaml:4", "pool shop/packers all.yaml:11"},
		},
		"a directory, without its subdirectories and other files": {
			files: map[string]string{"b.yml": poolYAML, "a.yaml": flowYAML, "notes.txt": "no manifest", "sub/c.yaml": "broken: ["},
			want:  []string{"flow default/orders a.yaml:2", "pool shop/packers b.yml:2"},
		},
		"JSON": {
			files: map[string]string{"flow.json": `{"apiVersion":"workpulling.dev/v1alpha1","kind":"WorkPullingFlow","metadata":{"name":"orders"}}`},
			want:  []string{"flow default/orders flow.json:1"},
		},
		"standard input": {
			files: map[string]string{}, paths: []string{Stdin}, stdin: flowYAML,
			want: []string{"flow default/orders stdin:2"},
		},
		"the same file twice": {
			files: map[string]string{"flow.yaml": flowYAML}, paths: []string{"", "flow.yaml"},
			want: []string{"flow default/orders flow.yaml:2"},
		},
		"other kinds are named": {
			files: map[string]string{"all.yaml": flowYAML + "---\napiVersion: v1\nkind: Namespace\nmetadata:\n  name: shop\n" +
				"---\napiVersion: kustomize.config.k8s.io/v1beta1\nkind: Kustomization\n"},
			want: []string{"flow default/orders all.yaml:2", "skipped all.yaml:7: Namespace shop", "skipped all.yaml:12: Kustomization "},
		},
		"ConfigMaps and Secrets are kept": {
			files: map[string]string{"all.yaml": flowYAML + "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: settings\n" +
				"---\napiVersion: v1\nkind: Secret\nmetadata:\n  name: password\n  namespace: shop\nstringData:\n  key: secret\n"},
			want: []string{"flow default/orders all.yaml:2", "ConfigMap default/settings", "Secret shop/password secret"},
		},
		"a List, as kubectl prints it": {
			files: map[string]string{"list.yaml": "apiVersion: v1\nkind: List\nitems:\n- apiVersion: workpulling.dev/v1alpha1\n  kind: WorkPullingFlow\n" +
				"  metadata:\n    name: one\n- apiVersion: workpulling.dev/v1alpha1\n  kind: WorkPullingFlow\n  metadata:\n    name: two\n"},
			want: []string{"flow default/one list.yaml:5", "flow default/two list.yaml:9"},
		},
		"one name in two namespaces": {
			files: map[string]string{"all.yaml": flowYAML + "---\n" + flowYAML + "  namespace: shop\n"},
			want:  []string{"flow default/orders all.yaml:2", "flow shop/orders all.yaml:7"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, c.files)
			paths := []string{dir}
			if c.paths != nil {
				paths = nil
				for _, path := range c.paths {
					if path != Stdin {
						path = filepath.Join(dir, path)
					}
					paths = append(paths, path)
				}
			}
			set, err := Load(t.Context(), paths, strings.NewReader(c.stdin))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, found(set, dir)); diff != "" {
				t.Errorf("set (-want +got):\n%s", diff)
			}
		})
	}
}

// What is refused is refused with its place, all of it at once.
func TestLoadRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		text string
		want []string
	}{
		"a value of none": {flowYAML + "spec:\n  queue:\n    type: Tape\n",
			[]string{`m.yaml:7: WorkPullingFlow orders: spec.queue.type: Unsupported value: "Tape": supported values: `}},
		"a misspelt field": {flowYAML + "spec:\n  queue: {}\n  redelivry: {}\n",
			[]string{"m.yaml:7: WorkPullingFlow orders: spec.redelivry: Forbidden: unknown field"}},
		"a misspelt field of the pod": {strings.Replace(poolYAML, "image:", "imgae:", 1),
			[]string{"m.yaml:12: WorkerPool packers: spec.template.spec.containers[0].imgae: Forbidden: unknown field"}},
		"a rule over two fields": {strings.Replace(poolYAML, "spec:\n", "spec:\n  concurrency: 60\n", 1),
			[]string{"m.yaml:6: WorkerPool packers: spec: Invalid value: concurrency must not be greater than flowControlWindow"}},
		"a syntax error in the second document": {flowYAML + "---\na: [1\nb: 2\n", []string{"m.yaml:6: did not find expected"}},
		"a key twice":                           {flowYAML + "spec: {}\nspec: {}\n", []string{"m.yaml:6: ", `"spec" already set in map`}},
		"two objects of one name": {flowYAML + "---\n" + flowYAML,
			[]string{"m.yaml:7: WorkPullingFlow orders in namespace default is there already, at m.yaml:2"}},
		"no kind": {"a: 1\n", []string{"m.yaml:1: this is no Kubernetes object"}},
		"another version": {strings.Replace(flowYAML, "v1alpha1", "v9", 1),
			[]string{"m.yaml:2: WorkPullingFlow of workpulling.dev/v9 is not known to this version"}},
		"no name":        {strings.Replace(flowYAML, "name: orders", "labels: {}", 1), []string{"m.yaml:3: WorkPullingFlow : metadata.name"}},
		"a wrong name":   {strings.Replace(flowYAML, "orders", "Or_ders", 1), []string{"m.yaml:4: WorkPullingFlow Or_ders: metadata.name: Invalid value"}},
		"nothing to run": {"apiVersion: v1\nkind: Namespace\nmetadata: {name: x}\n", []string{"no WorkPullingFlow and no WorkerPool"}},
		"two errors":     {strings.Replace(flowYAML, "orders", "Or_ders", 1) + "---\na: 1\n", []string{"m.yaml:4: ", "m.yaml:6: "}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := tree(t, map[string]string{"m.yaml": c.text})
			_, err := Load(t.Context(), []string{filepath.Join(dir, "m.yaml")}, nil)
			if err == nil {
				t.Fatal("was taken")
			}
			got := strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("refused with\n%s\nwant\n%s", got, want)
				}
			}
		})
	}
}

func TestLoadNeedsFiles(t *testing.T) {
	empty := t.TempDir()
	for _, path := range []string{filepath.Join(empty, "none.yaml"), empty} {
		if _, err := Load(t.Context(), []string{path}, nil); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// The defaults are those of the definitions.
func TestLoadSetsDefaults(t *testing.T) {
	dir := tree(t, map[string]string{"m.yaml": flowYAML + "---\n" + poolYAML})
	set, err := Load(t.Context(), []string{dir}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if flow := set.Flows[0]; flow.Spec.Queue.Type != "Local" || *flow.Spec.Redelivery.MaxAttempts != 20 {
		t.Errorf("flow with %q and %d attempts", flow.Spec.Queue.Type, *flow.Spec.Redelivery.MaxAttempts)
	}
	if pool := set.Pools[0]; pool.Spec.FlowControlWindow != 50 || pool.Spec.Handler.HTTP == nil || pool.Spec.Handler.HTTP.Port == 0 {
		t.Errorf("pool with a window of %d and the handler %v", pool.Spec.FlowControlWindow, pool.Spec.Handler.HTTP)
	}
}
