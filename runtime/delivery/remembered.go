package delivery

// remembered are the jobs that handlers of this worker have finished and a producer has not taken over, whose binding is gone. It
// keeps the latest so many of them.
type remembered struct {
	jobs  map[string]rememberedJob
	order deque[remembrance] // oldest first; some are forgotten or remembered anew since
	last  uint64
}

type rememberedJob struct {
	identity identity
	held     held
	reason   string
	number   uint64 // of its place in the order
}

type remembrance struct {
	id     string
	number uint64
}

// memoryOf is how many finished jobs are remembered: those of two bindings, with what ran beside them.
func memoryOf(cfg *ConsumerConfig) int { return 2 * (cfg.Window + cfg.Concurrency) }

func (r *remembered) add(id string, j rememberedJob, limit int) {
	if r.jobs == nil {
		r.jobs = map[string]rememberedJob{}
	}
	r.last++
	j.number = r.last
	r.jobs[id] = j
	r.order.push(remembrance{id, j.number})
	for len(r.jobs) > limit {
		if oldest := r.order.pop(); r.current(oldest) {
			delete(r.jobs, oldest.id)
		}
	}
	if r.order.len() > 2*limit {
		for range r.order.len() {
			if x := r.order.pop(); r.current(x) {
				r.order.push(x)
			}
		}
	}
}

func (r *remembered) current(x remembrance) bool { return r.jobs[x.id].number == x.number }

// forget drops a job, if it is this very one.
func (r *remembered) forget(id string, storeSeq int64) {
	if j, ok := r.jobs[id]; ok && j.identity.storeSeq == storeSeq {
		delete(r.jobs, id)
	}
}
