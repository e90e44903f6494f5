package operator

import (
	"fmt"

	"k8s.io/apimachinery/pkg/labels"
)

// Labels select pods. Their text form is key=value, separated by commas.
type Labels map[string]string

// MarshalText writes them sorted.
func (l Labels) MarshalText() ([]byte, error) { return []byte(labels.FormatLabels(l)), nil }

// UnmarshalText replaces them all.
func (l *Labels) UnmarshalText(text []byte) error {
	read, err := labels.ConvertSelectorToLabelsMap(string(text))
	if err != nil {
		return fmt.Errorf("reading labels: %w", err)
	}
	*l = Labels(read)
	return nil
}
