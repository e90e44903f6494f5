package memory

// index finds the places of ids by the hashes of the ids. It knows no ids: what it finds is to be verified, so that two ids of one hash
// are two ids. It holds no pointers, and is split by the first bits of the hash, so that growing never takes long.
type index struct {
	shards [1 << shardBits]shard
}

const shardBits = 6

// shard is an open-addressed table with linear probing. A place of 0 marks a free slot; there is always one.
type shard struct {
	slots []slot
	used  int
}

type slot struct {
	hash uint32
	at   place
}

const fewestSlots = 8

func (x *index) shard(hash uint32) *shard { return &x.shards[hash>>(32-shardBits)] }

// find returns the place under hash that match knows, or 0.
func (x *index) find(hash uint32, match func(place) bool) place {
	s := x.shard(hash)
	if len(s.slots) == 0 {
		return 0
	}
	for i := s.home(hash); s.slots[i].at != 0; i = s.next(i) {
		if s.slots[i].hash == hash && match(s.slots[i].at) {
			return s.slots[i].at
		}
	}
	return 0
}

// add puts a place that is not there.
func (x *index) add(hash uint32, at place) {
	s := x.shard(hash)
	if s.used+1 > len(s.slots)*3/4 {
		s.resize(max(fewestSlots, len(s.slots)*5/4)) // so that at least three fifths are in use
	}
	s.insert(slot{hash, at})
	s.used++
}

// remove takes out a place that is there. Those behind it close the gap, so that no search ends early and none passes what is gone.
func (x *index) remove(hash uint32, at place) {
	s := x.shard(hash)
	gap := s.home(hash)
	for s.slots[gap].at != at {
		gap = s.next(gap)
	}
	for i := s.next(gap); s.slots[i].at != 0; i = s.next(i) {
		if s.distance(s.home(s.slots[i].hash), i) >= s.distance(gap, i) {
			s.slots[gap], gap = s.slots[i], i
		}
	}
	s.slots[gap] = slot{}
	s.used--
	if s.used < len(s.slots)/4 && len(s.slots) > fewestSlots {
		s.resize(max(fewestSlots, len(s.slots)/2))
	}
}

func (s *shard) insert(entry slot) {
	i := s.home(entry.hash)
	for s.slots[i].at != 0 {
		i = s.next(i)
	}
	s.slots[i] = entry
}

func (s *shard) resize(size int) {
	old := s.slots
	s.slots = make([]slot, size)
	for _, slot := range old {
		if slot.at != 0 {
			s.insert(slot)
		}
	}
}

// home is where the search for a hash begins: the bits that did not choose the shard, scaled to the number of slots.
func (s *shard) home(hash uint32) int {
	return int(uint64(hash<<shardBits) * uint64(len(s.slots)) >> 32)
}

func (s *shard) next(i int) int {
	if i++; i == len(s.slots) {
		return 0
	}
	return i
}

// distance is how many slots lie from one to another that comes after it.
func (s *shard) distance(from, to int) int {
	if to < from {
		to += len(s.slots)
	}
	return to - from
}
