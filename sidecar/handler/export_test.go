package handler

// Load counts the attempts that streams hold, those that wait for a stream included.
func Load(s *Streams) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	sum := len(s.waiting)
	for _, st := range s.open {
		sum += st.load()
	}
	return sum
}

// Visitors counts the streams that have not ended.
func Visitors(s *Streams) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.visitors
}
