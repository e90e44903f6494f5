package surface

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/operator"
)

const root = "../.."

// openings are the files of the code that listen on anything, with what they open.
var openings = map[string][]listener{
	"sidecar/producer/run.go":      {producerStreams},
	"sidecar/intake/server.go":     {producerIntake, intakeSocket},
	"sidecar/health/server.go":     {producerHealth, producerMetrics, workerHealth, workerMetrics},
	"sidecar/socket/listen.go":     {producerSocket, drainSocket, appSocket},
	"sidecar/worker/run.go":        {workerControl},
	"internal/flowstats/server.go": {operatorReports},
}

// elsewhere are the openings that the table does not try, with the tests that do.
var elsewhere = map[string]string{
	"internal/operator/operator.go": "TestMetricsAreForWhoMayScrape", // of controller-runtime, which listens itself
	"internal/standalone/door.go":   "TestDoor",                      // of the command workpulling, on the loopback alone
	"internal/standalone/ports.go":  "TestPorts",                     // looks whether a port is free
	"producer.go":                   "TestStrangersStayOutside",      // of the library
}

// routes are the HTTP listeners of each package that has routes.
var routes = map[string][]listener{
	"sidecar/intake":    {producerIntake, intakeSocket},
	"sidecar/health":    {producerHealth, workerHealth},
	"sidecar/telemetry": {producerMetrics, workerMetrics},
	"sidecar/drain":     {drainSocket},
}

// source visits every call.
func source(t *testing.T, visit func(file string, call *ast.CallExpr)) {
	t.Helper()
	nodes(t, func(file string, node ast.Node) {
		if call, ok := node.(*ast.CallExpr); ok {
			visit(file, call)
		}
	})
}

// nodes visits the code that runs in a cluster or on a user's machine, tests and tools left out.
func nodes(t *testing.T, visit func(file string, node ast.Node)) {
	t.Helper()
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, _ := filepath.Rel(root, path)
		switch {
		case entry.IsDir() && (slices.Contains([]string{"test", "hack", "bin", "docs", "examples", "config", "runtime/transport/transporttest", "sidecar/handler/apptest"}, filepath.ToSlash(name)) ||
			strings.HasPrefix(entry.Name(), ".") && name != "." || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") || strings.HasSuffix(name, ".pb.go"):
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		ast.Inspect(file, func(node ast.Node) bool {
			visit(filepath.ToSlash(name), node)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// called is the name of a call's function, with its package or receiver.
func called(call *ast.CallExpr) string {
	switch of := call.Fun.(type) {
	case *ast.Ident:
		return of.Name
	case *ast.SelectorExpr:
		if x, ok := of.X.(*ast.Ident); ok {
			return x.Name + "." + of.Sel.Name
		}
		return "." + of.Sel.Name
	}
	return ""
}

// literal is the text of an argument, "" where it is none.
func literal(call *ast.CallExpr, at int) string {
	if len(call.Args) <= at {
		return ""
	}
	if text, ok := call.Args[at].(*ast.BasicLit); ok && text.Kind == token.STRING {
		value, _ := strconv.Unquote(text.Value)
		return value
	}
	return ""
}

func TestEverythingHasARow(t *testing.T) {
	listens, found := map[string]bool{}, 0
	source(t, func(file string, call *ast.CallExpr) {
		name := called(call)
		switch {
		case regexp.MustCompile(`^(net|tls)\.Listen|ListenAndServe|ListenPacket|\.ListenTCP|\.ListenUnix$`).MatchString(name) && !strings.HasPrefix(name, "intake."):
			listens[file] = true
			if openings[file] == nil && elsewhere[file] == "" {
				t.Errorf("%s listens with %s, and the table does not know of it", file, name)
			}
		case name == "route", strings.HasSuffix(name, ".Handle"), strings.HasSuffix(name, ".HandleFunc"):
			pattern := literal(call, 0)
			if pattern == "" || pattern == "/" || file == "internal/standalone/door.go" {
				return // a helper whose callers name the pattern, and what answers 404
			}
			found++
			at, known := routes[filepath.ToSlash(filepath.Dir(file))]
			if !known {
				t.Errorf("%s has the route %q, and the table knows no listener for it", file, pattern)
			}
			for _, l := range at {
				if find(l, pattern) == nil {
					t.Errorf("%s has the route %q, which has no row for %s", file, pattern, l)
				}
			}
		}
	})
	if found < 15 {
		t.Errorf("only %d routes were found: this test does not see them any more", found)
	}
	for file, at := range openings {
		if !listens[file] {
			t.Errorf("%s does not listen any more, or this test does not see it", file)
		}
		for _, l := range at {
			if !slices.ContainsFunc(table, func(r row) bool { return r.at == l }) {
				t.Errorf("%s opens %s, which has no row", file, l)
			}
		}
	}
	for file, name := range elsewhere {
		if !tested(t, filepath.Dir(file), name) {
			t.Errorf("%s is tried by %s, which does not exist", file, name)
		}
	}
}

// tested says whether a package has a test.
func tested(t *testing.T, dir, name string) bool {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, dir, "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(files, func(file string) bool {
		raw, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(raw), "func "+name+"(")
	})
}

// A server that a stranger reaches has a bound on headers, on how long they take, and on how long nothing comes.
func TestEveryHTTPServerIsBounded(t *testing.T) {
	servers := 0
	nodes(t, func(file string, node ast.Node) {
		server, ok := node.(*ast.CompositeLit)
		if !ok {
			return
		}
		if of, ok := server.Type.(*ast.SelectorExpr); !ok || of.Sel.Name != "Server" || fmt.Sprint(of.X) != "http" {
			return
		}
		servers++
		set := map[string]bool{}
		for _, element := range server.Elts {
			if pair, ok := element.(*ast.KeyValueExpr); ok {
				set[fmt.Sprint(pair.Key)] = true
			}
		}
		for _, field := range []string{"MaxHeaderBytes", "ReadHeaderTimeout", "IdleTimeout"} {
			if !set[field] {
				t.Errorf("%s has a server without %s", file, field)
			}
		}
	})
	if servers < 3 {
		t.Errorf("only %d servers were found", servers)
	}
}

// Every method of every service that is registered anywhere is allowed or refused by a row, and there is no row of a method that is not there.
func TestEveryMethodHasARow(t *testing.T) {
	methods := services()
	for what := range methods {
		if !slices.ContainsFunc(table, func(r row) bool { return r.what == what }) {
			t.Errorf("%s has no row", what)
		}
	}
	for _, r := range table {
		if _, there := methods[r.what]; !there && !strings.Contains(r.what, " ") {
			t.Errorf("%s has a row and does not exist", r.what)
		}
	}
	if len(methods) < 9 {
		t.Errorf("only %d methods were found", len(methods))
	}
}

// The ports of pods, of the installation and of the operator's defaults are those in the names of the listeners.
func TestEveryPortIsAListeners(t *testing.T) {
	all := map[listener]bool{operatorMetrics: true, operatorProbes: true}
	for _, r := range table {
		all[r.at] = true
	}
	number := regexp.MustCompile(`\((\d+), `)
	of := func(part string) (ports []string) {
		for l := range all {
			if strings.HasPrefix(string(l), part) {
				if port := number.FindStringSubmatch(string(l)); len(port) > 1 && !slices.Contains(ports, port[1]) {
					ports = append(ports, port[1])
				}
			}
		}
		slices.Sort(ports)
		return ports
	}
	same := func(where string, want, got []string) {
		slices.Sort(got)
		if diff := cmp.Diff(want, slices.Compact(got)); diff != "" {
			t.Errorf("%s (-listeners +there):\n%s", where, diff)
		}
	}
	pods := append(of("producer"), of("worker")...)
	slices.Sort(pods)
	same("the layout of pods", slices.Compact(pods), slices.Collect(maps.Values(constants(t, root+"/internal/runtimeconfig/layout.go", "Port"))))
	for _, file := range []string{"charts/workpulling/templates/deployment.yaml", "config/manager/deployment.yaml"} {
		raw, err := os.ReadFile(filepath.Join(root, file))
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, port := range regexp.MustCompile(`containerPort: (\d+)`).FindAllStringSubmatch(string(raw), -1) {
			got = append(got, port[1])
		}
		same(file, of("operator"), got)
	}
	defaults := operator.Defaults()
	same("the operator's defaults", of("operator"), []string{
		strings.TrimPrefix(defaults.ReportsAddress, ":"), strings.TrimPrefix(defaults.MetricsAddress, ":"), strings.TrimPrefix(defaults.ProbeAddress, ":"),
	})
}

// constants are the numbers of a file whose names begin with prefix.
func constants(t *testing.T, path, prefix string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		if spec, ok := node.(*ast.ValueSpec); ok && strings.HasPrefix(spec.Names[0].Name, prefix) && len(spec.Values) == 1 {
			if value, ok := spec.Values[0].(*ast.BasicLit); ok && value.Kind == token.INT {
				out[spec.Names[0].Name] = value.Value
			}
		}
		return true
	})
	if len(out) == 0 {
		t.Fatal(fmt.Errorf("%s holds no constant that begins with %s", path, prefix))
	}
	return out
}

// The threat model claims what tests prove, and names tests that exist.
func TestTheThreatModelNamesItsTests(t *testing.T) {
	raw, err := os.ReadFile(root + "/docs/threat-model.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z0-9/]+) (Test[A-Za-z0-9_]+)`").FindAllStringSubmatch(string(raw), -1)
	if len(named) < 30 {
		t.Errorf("only %d tests are named", len(named))
	}
	for _, one := range named {
		if !tested(t, one[1], one[2]) {
			t.Errorf("%s has no %s", one[1], one[2])
		}
	}
}
