package producer

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/postgres"
)

// errNoConnection says that the Secret with the connection string is not there, or not the key.
var errNoConnection = errors.New("the connection string of the queue is missing")

// openPostgreSQL opens the database that the user's Secret names. The Secret is read anew when any of its keys has changed: the connection
// string, or a certificate that it names.
func (v *volume) openPostgreSQL(o Options, document runtimeconfig.Producer) {
	file := filepath.Join(o.QueueDir, orElse(document.QueueKey, "dsn"))
	v.shared = true
	v.version = func() string { return fingerprint(o.QueueDir) }
	v.open = func(ctx context.Context, window time.Duration) (queue.WorkQueue, error) {
		raw, err := os.ReadFile(file)
		dsn := strings.TrimSpace(string(raw))
		if errors.Is(err, os.ErrNotExist) || err == nil && dsn == "" {
			return nil, fmt.Errorf("%w: Secret %q in namespace %s does not exist, or has no key %q",
				errNoConnection, document.QueueSecret, document.Namespace, orElse(document.QueueKey, "dsn"))
		}
		if err != nil {
			return nil, fmt.Errorf("reading the connection string: %w", err)
		}
		return postgres.New(ctx, postgres.Options{ConnString: dsn, FlowUID: document.FlowUID, DeduplicationWindow: window})
	}
}

// fingerprint tells one content of a directory's files from another. Those that start with ".." are how kubelet replaces all at once.
func fingerprint(dir string) string {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return ""
	}
	sum := sha256.New()
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), "..") {
			continue
		}
		if raw, err := os.ReadFile(filepath.Join(dir, entry.Name())); err == nil {
			fmt.Fprintf(sum, "%s %d\n%s", entry.Name(), len(raw), raw)
		}
	}
	return string(sum.Sum(nil))
}
