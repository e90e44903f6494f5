package flow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/test/builders"
)

// The page of rights gives a reason for everything that a producer may do in its namespace, and names nothing else.
func TestEveryRightOfAProducerIsOnThePage(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "reference", "rbac.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\nA Role in its namespace:\n\n")
	table, _, _ = strings.Cut(table, "\n\n")
	var onPage []string
	for i, line := range strings.Split(table, "\n") {
		if cells := strings.Split(line, " | "); i > 1 && len(cells) == 3 {
			onPage = append(onPage, cells[0]+" | "+cells[1])
		}
	}
	var held []string
	for _, rule := range role(builders.MakeFlow("<flow>", "shop").PostgreSQL("db", 3).Obj()).Rules {
		resource := "| `" + strings.Join(rule.Resources, "`, `") + "`"
		if len(rule.ResourceNames) > 0 {
			resource += " named `" + strings.Join(rule.ResourceNames, "`, `") + "`"
		}
		held = append(held, resource+" | "+strings.Join(rule.Verbs, ", "))
	}
	if diff := cmp.Diff(held, onPage); diff != "" {
		t.Errorf("docs/reference/rbac.md (-Role +page):\n%s", diff)
	}
}
