package main

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// peer writes the records of queue/local straight to Pebble: index, row and bytes of a job, a tombstone and its age.
type peer struct{ db *pebble.DB }

// Prefixes of the keys, one for each bucket of queue/local.
const (
	prefixID    = 'i'
	prefixRow   = 'r'
	prefixJob   = 'j'
	prefixTomb  = 't'
	prefixAging = 'a'
)

type quiet struct{}

func (quiet) Infof(string, ...any)              {}
func (quiet) Errorf(format string, args ...any) { fmt.Fprintf(os.Stderr, format+"\n", args...) }
func (quiet) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func openPebble(dir string) (contestant, error) {
	options := &pebble.Options{FormatMajorVersion: pebble.FormatNewest, Logger: quiet{}}
	for i := range options.Levels {
		options.Levels[i].FilterPolicy = bloom.FilterPolicy(10)
	}
	db, err := pebble.Open(dir, options)
	return &peer{db}, err
}

func under(prefix byte, key ...[]byte) []byte {
	return slices.Concat(append([][]byte{{prefix}}, key...)...)
}

func (p *peer) get(key []byte) ([]byte, error) {
	value, closer, err := p.db.Get(key)
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return slices.Clone(value), closer.Close()
}

func (p *peer) store(jobs, settle []job) error {
	b := p.db.NewBatch()
	defer b.Close()
	for _, j := range jobs {
		known, err := p.get(under(prefixID, []byte(j.id)))
		if err != nil || known != nil {
			return fmt.Errorf("id %s is known: %w", j.id, err)
		}
		key, digest := seqKey(j.seq), sha256.Sum256(j.payload)
		row := slices.Concat(make([]byte, 30), digest[:], []byte(j.id))
		if err := errors.Join(
			b.Set(under(prefixID, []byte(j.id)), key, nil),
			b.Set(under(prefixRow, key), row, nil),
			b.Set(under(prefixJob, key), slices.Concat([]byte(j.id), make([]byte, 40), j.payload), nil),
		); err != nil {
			return err
		}
	}
	return p.finish(b, settle)
}

func (p *peer) settle(jobs []job) error {
	b := p.db.NewBatch()
	defer b.Close()
	return p.finish(b, jobs)
}

func (p *peer) finish(b *pebble.Batch, settle []job) error {
	now := binary.BigEndian.AppendUint64(nil, uint64(time.Now().UnixNano()))
	for _, j := range settle {
		key, err := p.get(under(prefixID, []byte(j.id)))
		if err != nil {
			return err
		}
		row, err := p.get(under(prefixRow, key))
		if err != nil || row == nil {
			return fmt.Errorf("row %d is gone: %w", j.seq, err)
		}
		if err := errors.Join(
			b.Delete(under(prefixRow, key), nil), b.Delete(under(prefixJob, key), nil),
			b.Set(under(prefixTomb, key), row, nil), b.Set(under(prefixAging, now, key), nil, nil),
		); err != nil {
			return err
		}
	}
	return b.Commit(pebble.Sync)
}

func (p *peer) each(prefix byte, visit func(key, value []byte) bool) error {
	it, err := p.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefix}, UpperBound: []byte{prefix + 1}})
	if err != nil {
		return err
	}
	for it.First(); it.Valid(); it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return errors.Join(err, it.Close())
		}
		if !visit(it.Key()[1:], value) {
			break
		}
	}
	return it.Close()
}

func (p *peer) load() (n int, err error) {
	err = p.each(prefixRow, func(_, _ []byte) bool { n++; return true })
	return n, err
}

func (p *peer) forget() error {
	for {
		b, n := p.db.NewBatch(), 0
		var failure error
		if err := p.each(prefixAging, func(aging, _ []byte) bool {
			row, err := p.get(under(prefixTomb, aging[8:]))
			if err != nil || len(row) < 62 {
				failure = fmt.Errorf("a tombstone is gone: %w", err)
				return false
			}
			n++
			failure = errors.Join(b.Delete(under(prefixAging, aging), nil), b.Delete(under(prefixTomb, aging[8:]), nil),
				b.Delete(under(prefixID, row[62:]), nil))
			return failure == nil && n < 4096
		}); err != nil || failure != nil {
			return errors.Join(err, failure, b.Close())
		}
		if err := errors.Join(b.Commit(pebble.Sync), b.Close()); err != nil || n == 0 {
			return err
		}
	}
}

func (p *peer) close() error { return p.db.Close() }
