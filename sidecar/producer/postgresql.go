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

// openPostgreSQL opens the database that the user's Secret names. The Secret is read anew when it has changed.
func (v *volume) openPostgreSQL(o Options, document runtimeconfig.Producer) {
	file := filepath.Join(o.QueueDir, orElse(document.QueueKey, "dsn"))
	v.shared = true
	v.version = func() string {
		raw, err := os.ReadFile(file)
		if err != nil {
			return ""
		}
		sum := sha256.Sum256(raw)
		return string(sum[:])
	}
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
