package alerts

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"
)

const root = "../../.."

// document is the part of a PrometheusRule that is looked at.
type document struct {
	Kind string `json:"kind"`
	Spec struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []rule `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

type rule struct {
	Alert       string            `json:"alert"`
	Expr        string            `json:"expr"`
	For         string            `json:"for"`
	Labels      map[string]string `json:"labels"`
	Annotations map[string]string `json:"annotations"`
}

// rules are those of all files of config/prometheus.
func rules(t *testing.T) (list []rule) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "config", "prometheus", "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		var d document
		if err := yaml.Unmarshal([]byte(read(t, file)), &d); err != nil {
			t.Fatalf("%s: %v", file, err)
		}
		if d.Kind != "PrometheusRule" {
			continue
		}
		if len(d.Spec.Groups) == 0 {
			t.Errorf("%s holds no rules", file)
		}
		for _, group := range d.Spec.Groups {
			list = append(list, group.Rules...)
		}
	}
	if len(list) == 0 {
		t.Fatal("no alerts")
	}
	return list
}

func read(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

var tableRow = regexp.MustCompile("(?m)^\\| `(workpulling_[a-z_]+)` \\| [a-z]+ \\| ([^|]*) \\|")

// exported are our metrics with their labels, by the generated reference.
func exported(t *testing.T) map[string][]string {
	t.Helper()
	all := map[string][]string{}
	for _, row := range tableRow.FindAllStringSubmatch(read(t, filepath.Join(root, "docs", "reference", "metrics.md")), -1) {
		all[row[1]] = strings.Split(strings.ReplaceAll(row[2], "`", ""), ", ")
	}
	return all
}

// Every expression is one that Prometheus takes, about metrics that we export, by labels that they have.
func TestExpressions(t *testing.T) {
	metrics := exported(t)
	language := parser.NewParser(parser.Options{})
	for _, r := range rules(t) {
		expression, err := language.ParseExpr(r.Expr)
		if err != nil {
			t.Errorf("%s: %v", r.Alert, err)
			continue
		}
		selects := 0
		parser.Inspect(expression, func(node parser.Node, _ []parser.Node) error {
			selector, ok := node.(*parser.VectorSelector)
			if !ok {
				return nil
			}
			selects++
			labels, known := metrics[selector.Name]
			if !known {
				t.Errorf("%s: nothing exports %s", r.Alert, selector.Name)
			}
			for _, matcher := range selector.LabelMatchers {
				if matcher.Name != "__name__" && !slices.Contains(labels, matcher.Name) {
					t.Errorf("%s: %s has no label %s", r.Alert, selector.Name, matcher.Name)
				}
			}
			return nil
		})
		if selects == 0 {
			t.Errorf("%s looks at nothing", r.Alert)
		}
		if duration, err := time.ParseDuration(r.For); err != nil || duration <= 0 {
			t.Errorf("%s: for %q", r.Alert, r.For)
		}
	}
}

// Every alert has what a person needs, and a page; every page has an alert.
func TestRunbooks(t *testing.T) {
	pages := map[string]bool{}
	for _, r := range rules(t) {
		if !strings.HasPrefix(r.Alert, "Workpulling") {
			t.Errorf("%s does not begin with Workpulling", r.Alert)
		}
		if severity := r.Labels["severity"]; severity != "warning" && severity != "critical" {
			t.Errorf("%s has severity %q", r.Alert, severity)
		}
		page := "docs/runbooks/" + r.Alert + ".md"
		if r.Annotations["summary"] == "" || r.Annotations["runbook"] != page || pages[page] {
			t.Errorf("%s: annotations %v, want a summary and its own runbook", r.Alert, r.Annotations)
		}
		pages[page] = true
		if text := read(t, filepath.Join(root, page)); !strings.HasPrefix(text, "# "+r.Alert+"\n") {
			t.Errorf("%s is about something else", page)
		}
	}
	files, err := filepath.Glob(filepath.Join(root, "docs", "runbooks", "Workpulling*.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if !pages["docs/runbooks/"+filepath.Base(file)] {
			t.Errorf("%s has no alert", file)
		}
	}
}
