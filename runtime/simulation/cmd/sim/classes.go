package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/workpulling/workpulling/runtime/simulation"
)

const (
	beginClasses = "<!-- classes: made by make docs -->\n"
	endClasses   = "<!-- end of classes -->\n"
)

// writeClasses puts the table of misfortunes between the markers of a page.
func writeClasses(path string) error {
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("reading the page: %w", err)
	}
	before, rest, begins := strings.Cut(string(text), beginClasses)
	_, after, ends := strings.Cut(rest, endClasses)
	if !begins || !ends {
		return fmt.Errorf("%s has no markers", path)
	}
	page := before + beginClasses + simulation.ClassTable() + endClasses + after
	if err := os.WriteFile(path, []byte(page), 0o644); err != nil {
		return fmt.Errorf("writing the page: %w", err)
	}
	return nil
}
