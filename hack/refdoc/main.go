package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	root := flag.String("root", ".", "directory of the repository")
	flag.Parse()
	if err := run(*root); err != nil {
		fmt.Fprintln(os.Stderr, "refdoc:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	pages, err := render(root)
	if err != nil {
		return err
	}
	dir := filepath.Join(root, "docs", "reference")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, page := range pages {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(page), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// render makes every page, by file name.
func render(root string) (map[string]string, error) {
	api := filepath.Join(root, "api", "v1alpha1")
	conditions, err := constantsPage(filepath.Join(api, "conditions.go"), conditionsIntro)
	if err != nil {
		return nil, err
	}
	labels, err := constantsPage(filepath.Join(api, "labels.go"), labelsIntro)
	if err != nil {
		return nil, err
	}
	fields, err := fieldsPage(filepath.Join(root, "config", "crd", "bases"))
	if err != nil {
		return nil, err
	}
	figures, err := metricsPage()
	if err != nil {
		return nil, err
	}
	return map[string]string{
		"conditions.md": conditions, "labels.md": labels, "api.md": fields, "metrics.md": figures, "operator-flags.md": flagsPage(),
		"problems.md": problemsPage(),
	}, nil
}
