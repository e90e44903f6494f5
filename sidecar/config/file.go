package config

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
)

// Document is one version of a sidecar's configuration.
type Document[T any] struct {
	Value T
	// Hash identifies this version, as runtimeconfig.Hash computes it.
	Hash string
}

// Read reads and decodes the file at path. Unknown fields are ignored, so that a newer operator may serve an older sidecar.
func Read[T any](path string) (Document[T], error) {
	var doc Document[T]
	raw, err := os.ReadFile(path)
	if err != nil {
		return doc, fmt.Errorf("reading the configuration: %w", err)
	}
	if err := json.Unmarshal(raw, &doc.Value); err != nil {
		return doc, fmt.Errorf("decoding the configuration %s: %w", path, err)
	}
	doc.Hash = runtimeconfig.Hash(raw)
	return doc, nil
}

// Watch calls changed with every new version of the file at path after current, until ctx ends. It polls, because kubelet swaps
// a symbolic link above the file and every notification library has to special-case that.
func Watch[T any](ctx context.Context, log logr.Logger, path string, current Document[T], every time.Duration, changed func(Document[T])) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	var complained string
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		next, err := Read[T](path)
		if err != nil {
			if complained != err.Error() {
				complained = err.Error()
				log.Error(err, "Keeping the last good configuration", "path", path, "hash", current.Hash)
			}
			continue
		}
		if complained != "" {
			complained = ""
			log.Info("The configuration can be read again", "hash", next.Hash)
		}
		if next.Hash != current.Hash {
			log.Info("Applying a new configuration", "hash", next.Hash, "previous", current.Hash)
			current = next
			changed(next)
		}
	}
}
