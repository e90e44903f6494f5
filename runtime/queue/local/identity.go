package local

import (
	"bytes"
	"fmt"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// secret reads the secret of the data, if they have one.
func (t *table) secret() (secret queue.Secret, ok bool, err error) {
	record := t.meta.Get(keySecret)
	if record == nil {
		return queue.Secret{}, false, nil
	}
	fields, err := unseal(keySecret, record)
	if err == nil && len(fields) != len(queue.Secret{}) {
		err = errRecord
	}
	if err != nil {
		return queue.Secret{}, false, fmt.Errorf("%w: secret: %w", queue.ErrConflict, err)
	}
	return queue.Secret(fields), true, nil
}

// readWorkers are the recorded incarnations in the order of their keys.
func (t *table) readWorkers() ([]protocol.Incarnation, error) {
	var workers []protocol.Incarnation
	err := t.workers.ForEach(func(key, record []byte) error {
		w, err := decodeWorker(key, record)
		if err != nil {
			return fmt.Errorf("%w: worker under %x: %w", queue.ErrConflict, key, err)
		}
		workers = append(workers, w)
		return nil
	})
	return workers, err
}

// putWorkers replaces the recorded incarnations and touches only those that differ: most of a pool stays as it is when one
// worker comes.
func (t *table) putWorkers(workers []protocol.Incarnation) {
	wanted := make(map[string]bool, len(workers))
	for _, w := range workers {
		wanted[string(workerKey(w))] = true
	}
	var gone [][]byte
	cursor := t.workers.Cursor()
	for key, _ := cursor.First(); key != nil; key, _ = cursor.Next() {
		if wanted[string(key)] {
			delete(wanted, string(key))
		} else {
			gone = append(gone, bytes.Clone(key))
		}
	}
	for _, key := range gone {
		t.delete(t.workers, key)
	}
	for _, w := range workers {
		if key := workerKey(w); wanted[string(key)] {
			t.put(t.workers, key, seal(key, nil))
		}
	}
}

func workerKey(w protocol.Incarnation) []byte {
	return appendText(appendText(nil, w.PodUID), w.BootNonce)
}

func decodeWorker(key, record []byte) (protocol.Incarnation, error) {
	fields, err := unseal(key, record)
	if err != nil {
		return protocol.Incarnation{}, err
	}
	r := reader{rest: key}
	w := protocol.Incarnation{PodUID: r.text(), BootNonce: r.text()}
	if r.failed || len(r.rest) > 0 || len(fields) > 0 || w.PodUID == "" || w.BootNonce == "" {
		return protocol.Incarnation{}, fmt.Errorf("%w: fields", errRecord)
	}
	return w, nil
}
