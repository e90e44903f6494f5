package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"sigs.k8s.io/yaml"
)

func main() {
	in := flag.String("in", "", "directory with the CRDs as controller-gen wrote them")
	out := flag.String("out", "", "directory to write the trimmed CRDs to")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "crdtrim:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	files, err := filepath.Glob(filepath.Join(in, "*.yaml"))
	if err != nil {
		return fmt.Errorf("listing %s: %w", in, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("no CRD in %s", in)
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var errs []error
	for _, file := range files {
		errs = append(errs, trimFile(file, filepath.Join(out, filepath.Base(file))))
	}
	return errors.Join(errs...)
}

func trimFile(in, out string) error {
	raw, err := os.ReadFile(in)
	if err != nil {
		return err
	}
	var crd map[string]any
	if err := yaml.UnmarshalStrict(raw, &crd); err != nil {
		return fmt.Errorf("parsing %s: %w", in, err)
	}
	trim(crd)
	trimmed, err := yaml.Marshal(crd)
	if err != nil {
		return fmt.Errorf("encoding %s: %w", out, err)
	}
	return os.WriteFile(out, append([]byte("---\n"), trimmed...), 0o644)
}
