package endpoint

import (
	"context"
	"errors"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/queue"
)

// Orphans are jobs whose producer never said StoredAck (G-X16, B-060): their id is kept for ever, so somebody has to see them.

const (
	// orphanPage and mostOrphans bound one count of them.
	orphanPage  = 1000
	mostOrphans = 100_000
)

// errNoOrphans: a queue that keeps no record of accepts has none.
var errNoOrphans = errors.New("this queue does not list orphans")

// ListOrphans returns at most limit orphans with a store sequence above after, ascending.
func (p *Producer) ListOrphans(ctx context.Context, after int64, limit int) ([]queue.Orphan, error) {
	keeper, ok := p.options.Queue.(queue.OrphanKeeper)
	if !ok {
		return nil, queueError("listing orphans", errNoOrphans)
	}
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	orphans, err := keeper.ListOrphans(ctx, p.options.Clock.Now().Add(-p.options.OrphanAge), after, limit)
	return orphans, queueError("listing orphans", err)
}

// AcceptOrphan is a person's word that the producer has forgotten the job. An unsettled one runs on; a settled one may be forgotten
// after the deduplication window. audit says who and why. ErrNotFound if it is none.
func (p *Producer) AcceptOrphan(ctx context.Context, ref queue.JobRef, audit string) error {
	keeper, ok := p.options.Queue.(queue.OrphanKeeper)
	epoch := queue.Epoch(p.epoch.Load())
	if !ok || epoch == 0 {
		return queueError("accepting an orphan", errNoOrphans)
	}
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	if err := keeper.AcceptOrphan(ctx, epoch, ref, audit); err != nil {
		return queueError("accepting an orphan", err)
	}
	p.orphans.Add(-1) // until the next count
	return nil
}

// ListAudit returns at most limit lines of the audit trail with a number above after, ascending.
func (p *Producer) ListAudit(ctx context.Context, after uint64, limit int) ([]queue.AuditLine, error) {
	auditor, ok := p.options.Queue.(queue.Auditor)
	if !ok {
		return nil, queueError("reading the audit trail", errors.New("this queue keeps none"))
	}
	ctx, cancel := context.WithTimeout(ctx, p.operationTimeout())
	defer cancel()
	lines, err := auditor.ListAudit(ctx, after, limit)
	return lines, queueError("reading the audit trail", err)
}

// watchOrphans counts orphans once in a while, until ctx ends. A count that fails leaves the one before.
func (p *Producer) watchOrphans(ctx context.Context) {
	if _, ok := p.options.Queue.(queue.OrphanKeeper); !ok {
		return
	}
	for wait := p.options.CompactEvery; ; wait = p.options.OrphansEvery {
		select {
		case <-ctx.Done():
			return
		case <-p.options.Clock.After(wait):
		}
		if n, err := p.countOrphans(ctx); err == nil {
			p.orphans.Store(n)
		}
	}
}

func (p *Producer) countOrphans(ctx context.Context) (n int64, err error) {
	for after := int64(0); n < mostOrphans; {
		page, err := p.ListOrphans(ctx, after, orphanPage)
		if err != nil {
			return 0, err
		}
		n += int64(len(page))
		if len(page) < orphanPage {
			break
		}
		after = page[len(page)-1].StoreSeq
	}
	return n, nil
}

// stageCounter counts terminal failures by stage.
type stageCounter map[delivery.Stage]uint64

func (c stageCounter) add(stage delivery.Stage) { c[stage]++ }
