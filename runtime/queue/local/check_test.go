package local

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// check walks the whole file and compares its buckets with each other.
func (t *table) check() error {
	var entries, jobs, aging int
	counts := map[ledger.Status]int64{}
	v := view{tree: func() (*table, error) { return t, nil }}
	for _, b := range []bucket{rows, dead, tombs} {
		if err := v.scan(b, nil, 0, func(e ledger.Entry) (bool, error) {
			entries++
			counts[e.Status]++
			if !e.Settled() {
				jobs++
			}
			if e.Aging() {
				aging++
			}
			return true, nil
		}); err != nil {
			return err
		}
	}
	if counts[ledger.Stored] != t.state.stored || counts[ledger.DeadLettered] != t.state.dead {
		return fmt.Errorf("counted %v, the state says %+v", counts, t.state)
	}
	if err := t.ids.ForEach(func(id, _ []byte) error {
		entries--
		_, _, err := t.ByID(string(id))
		return err
	}); err != nil {
		return err
	}
	if err := t.jobs.ForEach(func(key, _ []byte) error {
		if binary.BigEndian.Uint16(key[8:]) > 0 {
			return nil
		}
		jobs--
		job, err := t.job(int64(binary.BigEndian.Uint64(key)))
		if err != nil {
			return err
		}
		e, ok, err := t.entry(key[:8])
		if err != nil || !ok || e.Settled() || e.MessageID != job.MessageID || e.PayloadBytes != len(job.Payload) {
			return fmt.Errorf("job %q under %x does not belong to %+v, error %w", job.MessageID, key, e, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if err := t.aging.ForEach(func(key, _ []byte) error {
		aging--
		e, ok, err := t.entry(key[8:])
		if err != nil || !ok || !bytes.Equal(agingKey(e), key) {
			return fmt.Errorf("window %x does not belong to %+v, error %w", key, e, err)
		}
		return nil
	}); err != nil {
		return err
	}
	if entries != 0 || jobs != 0 || aging != 0 {
		return fmt.Errorf("more entries than ids: %d, than jobs: %d, than windows: %d", entries, jobs, aging)
	}
	return nil
}
