package local

import (
	"testing"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// What reads rows for a Load goes on after the Load was given up, while others write: it looks at no layer, only at the copy that it has.
func TestReadingRowsLooksAtNoLayer(t *testing.T) {
	q, err := Open(t.Context(), Options{Dir: t.TempDir(), FlowUID: "uid-1"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	_, epoch, err := q.Load(t.Context(), "owner", func(queue.Row) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	batch := queue.Batch{Stores: []queue.StoreRequest{{Job: protocol.Job{MessageID: "a", Payload: []byte("x")}}}}
	if _, err := q.Apply(t.Context(), epoch, batch); err != nil {
		t.Fatal(err)
	}
	changed := (&view{layers: q.layers()}).changed()
	rows, err := look(t.Context(), q, func(now *view) ([]queue.Row, error) {
		return (&view{tree: now.tree}).rowsAfter(changed, 0, loadChunk)
	})
	if err != nil || len(rows) != 1 || rows[0].MessageID != "a" {
		t.Errorf("rows %v, error %v", rows, err)
	}
}
