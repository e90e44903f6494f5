package protocol

// String returns the outcome as a label value: a small closed set.
func (o Outcome) String() string {
	switch o {
	case Confirmed:
		return "confirmed"
	case Nacked:
		return "nacked"
	case Rejected:
		return "rejected"
	case HandedBack:
		return "handed-back"
	case Abandoned:
		return "abandoned"
	case Delayed:
		return "delayed"
	case Inadmissible:
		return "inadmissible"
	default:
		return "unknown"
	}
}
