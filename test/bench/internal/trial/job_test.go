package trial

import "testing"

func TestJobIsReadAsItWasMade(t *testing.T) {
	for _, size := range []int{0, MinPayload, 256, 4096} {
		for _, number := range []uint64{0, 1, 63, 1 << 26, MaxJobs - 1} {
			made := MakeJob(number, 12345, size)
			if got, at, ok := ReadJob(made.Payload, size); got != number || at != 12345 || !ok {
				t.Errorf("%d bytes: job %d is read as %d, sent at %d (%t)", size, number, got, at, ok)
			}
		}
	}
}

func TestJobWithOtherBytesIsNone(t *testing.T) {
	for name, alter := range map[string]func([]byte) []byte{
		"shorter":        func(p []byte) []byte { return p[:len(p)-1] },
		"longer":         func(p []byte) []byte { return append(p, 0) },
		"another byte":   func(p []byte) []byte { p[len(p)/2]++; return p },
		"another number": func(p []byte) []byte { p[0]++; return p },
		"empty":          func([]byte) []byte { return nil },
	} {
		if _, _, ok := ReadJob(alter(MakeJob(9, 0, 256).Payload), 256); ok {
			t.Errorf("%s: taken for a job", name)
		}
	}
}
