package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/workpulling/workpulling/internal/admission"
)

func newValidator(t *testing.T, file string) *admission.Validator {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "config", "crd", "bases", file))
	if err != nil {
		t.Fatal(err)
	}
	validator, err := admission.New(raw)
	if err != nil {
		t.Fatal(err)
	}
	return validator
}
