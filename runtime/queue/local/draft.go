package local

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/internal/ledger"
)

// draft is a view to which a group's operations add their changes. Nobody else sees them before they are synced.
type draft struct {
	view
	changes
	own     *layer // holds the changes as well, as the first of the layers, if others in the group are to see them
	shared  bool
	space   *space
	room    int64 // bytes that the changes may still take of the space that the tree has
	changed bool
}

// put adds a row. An operation looks at nothing any more when it puts its first.
func (d *draft) put(r row) {
	d.changed = true
	d.rows = append(d.rows, r)
	if d.shared {
		d.own.put(r)
	}
}

// apply adds one planned change; job is the encoded bytes of a new entry.
func (d *draft) apply(c ledger.Change, job []byte) {
	r := row{Entry: c.After, fresh: c.New()}
	r.Reason = d.afford(r.Reason)
	if c.New() && !r.Settled() {
		r.job = job
	}
	stored, dead := c.Growth()
	d.state.stored += stored
	d.state.dead += dead
	d.put(r)
}

// note adds an audit line.
func (d *draft) note(line queue.AuditLine) error {
	last, err := d.lastAudit()
	if err != nil {
		return err
	}
	line.Number, line.Text = last+1, d.afford(line.Text)
	d.audit = append(d.audit, line)
	d.own.audit, d.changed = d.audit, true
	return nil
}

func (d *draft) lastAudit() (uint64, error) {
	for _, l := range d.layers {
		if n := len(l.audit); n > 0 {
			return l.audit[n-1].Number, nil
		}
	}
	t, err := d.tree()
	if err != nil {
		return 0, err
	}
	if last, _ := t.audit.Cursor().Last(); last != nil {
		return binary.BigEndian.Uint64(last), nil
	}
	return 0, nil
}

// issue makes the next epoch. It changes nothing if it returns an error.
func (d *draft) issue(owner string, random io.Reader) (queue.State, error) {
	workers, err := d.readWorkers()
	if err != nil {
		return queue.State{}, err
	}
	secret, err := d.readSecret(random)
	if err != nil {
		return queue.State{}, err
	}
	d.state.epoch++
	d.state.owner, d.changed = owner, true
	return queue.State{Cursor: d.state.cursor, DeadLetters: d.state.dead, Format: Format, Secret: secret, Workers: workers}, nil
}

// readSecret reads the secret of the data; data that have none get one.
func (d *draft) readSecret(random io.Reader) (queue.Secret, error) {
	for _, l := range d.layers {
		if l.secret != nil {
			return *l.secret, nil
		}
	}
	t, err := d.tree()
	if err != nil {
		return queue.Secret{}, err
	}
	secret, ok, err := t.secret()
	if err != nil || ok {
		return secret, err
	}
	if secret, err = queue.NewSecret(random); err != nil {
		return queue.Secret{}, err
	}
	d.changes.secret, d.own.secret, d.changed = &secret, &secret, true
	return secret, nil
}

func (d *draft) readWorkers() ([]protocol.Incarnation, error) {
	for _, l := range d.layers {
		if l.workers != nil {
			return slices.Clone(l.workers), nil
		}
	}
	t, err := d.tree()
	if err != nil {
		return nil, err
	}
	return t.readWorkers()
}

func (d *draft) putWorkers(workers []protocol.Incarnation) {
	d.workers, d.own.workers, d.changed = workers, workers, true
}

// forget removes the oldest tombstones whose window is over and returns how many.
func (d *draft) forget(now time.Time, window time.Duration, limit int) (int, error) {
	due, last, err := d.expiredInTree(now, window, limit)
	if err != nil {
		return 0, err
	}
	for _, l := range d.layers {
		if l.oldest.IsZero() || now.Before(l.oldest.Add(window)) {
			continue
		}
		for seq, r := range l.rows {
			if !r.gone && r.Expired(now, window) && d.row(seq) == r {
				due = append(due, r.Entry)
			}
		}
	}
	slices.SortFunc(due, func(a, b ledger.Entry) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.StoreSeq, b.StoreSeq))
	})
	if len(due) > max(limit, 0) {
		due = due[:max(limit, 0)]
		last = nil
	}
	for _, e := range due {
		d.put(row{Entry: e, gone: true})
	}
	if len(due) > 0 {
		d.swept = last
	}
	return len(due), nil
}

// expiredInTree finds the oldest in the tree that the layers do not know, and the key up to which there is no more.
func (d *draft) expiredInTree(now time.Time, window time.Duration, limit int) (due []ledger.Entry, last []byte, err error) {
	t, err := d.tree()
	if err != nil {
		return nil, nil, err
	}
	cursor := t.aging.Cursor()
	for key, _ := cursor.Seek(d.sweptKey()); key != nil && len(due) < limit; key, _ = cursor.Next() {
		e, ok, err := t.entry(key[8:])
		if err != nil {
			return nil, nil, err
		}
		if !ok || !e.Aging() || !bytes.Equal(agingKey(e), key) {
			return nil, nil, fmt.Errorf("%w: the window under %x belongs to no tombstone", queue.ErrConflict, key)
		}
		if !e.Expired(now, window) {
			break
		}
		last = bytes.Clone(key)
		if d.row(e.StoreSeq) == nil { // else it is forgotten already
			due = append(due, e)
		}
	}
	return due, last, nil
}

// sweptKey is where to look for windows first.
func (d *draft) sweptKey() (key []byte) {
	for _, l := range d.layers {
		if bytes.Compare(l.swept, key) > 0 {
			key = l.swept
		}
	}
	return key
}

// take sets apart what the new jobs of a plan need, so that the reserve stays; an error means that they must wait, and changes
// nothing. Without new jobs it asks for nothing.
func (d *draft) take(changes []ledger.Change, jobs [][]byte) error {
	bytes, count := 0, 0
	for _, change := range changes {
		if change.Job >= 0 {
			bytes += len(jobs[change.Job])
			count++
		}
	}
	if count == 0 {
		return nil
	}
	return d.makeRoom(bytes, count)
}

// makeRoom sets apart what new jobs of so many bytes need.
func (d *draft) makeRoom(bytes, count int) error {
	cost := costOf(bytes, count)
	if missing := cost + d.reserve() + int64(count)*reservePerJob - d.room; missing > 0 {
		taken, err := d.space.grow(missing)
		if err != nil {
			return noRoom(err)
		}
		d.room += taken
	}
	d.spend(cost)
	return nil
}

// afford cuts a text for people short where only the last of the reserve is left for what must pass.
func (d *draft) afford(text string) string {
	if len(text) <= shortText {
		return text
	}
	d.spend(2 * int64(len(text)))
	if d.room < d.reserve()-reserveText {
		return strings.ToValidUTF8(text[:shortText], "")
	}
	return text
}

func (d *draft) spend(bytes int64) {
	d.room -= bytes
	d.cost += bytes
}

// reserve is how many bytes must stay behind a store.
func (d *draft) reserve() int64 { return reserve(d.state) }
