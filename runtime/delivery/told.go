package delivery

import (
	"math"

	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
)

// told is the epoch as workers are told it. It is that of the queue, unless a worker has seen a newer one and a write has proven
// since that nobody else owns the queue: then the data were set back, as the restore of a backup does, and workers, who never follow an older
// epoch (B-072), must be told one that is newer to them. It never falls in one process.
type told struct {
	epoch uint64
	// doubted is the newest epoch that a worker has seen and that no write has disproven.
	doubted uint64
}

// loaded begins a session under an epoch of the queue.
func (t *told) loaded(epoch queue.Epoch) {
	t.epoch, t.doubted = max(uint64(epoch), following(t.epoch)), 0
}

// disproven takes the word of a write that was sent when an epoch was in doubt.
func (t *told) disproven(doubted uint64) {
	if doubted >= t.epoch {
		t.epoch = following(doubted)
	}
	if t.doubted <= doubted {
		t.doubted = 0
	}
}

// following does not wrap: a worker that lies about the last epoch of all must not take the flow away from the others, who follow an equal one.
func following(epoch uint64) uint64 {
	if epoch == math.MaxUint64 {
		return epoch
	}
	return epoch + 1
}

// ancestry is the epoch that the worker is told: none without a name for the data that it counts for.
func (c *Controller) ancestry() uint64 {
	if c.queueName == "" {
		return 0
	}
	return c.told.epoch
}

// doubt makes the next write happen now: a worker has seen a newer epoch, and the write tells whether there is one. Without it a
// controller that was replaced and has nothing to write would turn workers away for ever, who follow only the newest.
func (c *Controller) doubt(m protocol.RegisterConsumer) {
	if m.Epoch > c.told.epoch && m.Queue == c.queueName && c.queueName != "" {
		c.drop("older-epoch")
		c.members.joined = true
		c.told.doubted = max(c.told.doubted, m.Epoch)
	}
}
