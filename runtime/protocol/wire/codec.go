package wire

import (
	"slices"
	"unicode/utf8"

	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	pb "github.com/workpulling/workpulling/runtime/protocol/v1"
)

// Codec is gRPC's codec for protobuf, but that it copies no large payload of a delivery: on the way out it is written from where it is, on the
// way in it stays in its frame. The bytes are the same, so that either end may have either codec.
type Codec struct{}

// Sizes from which it is worth to copy nothing.
const (
	// referred is that of a payload that is written from where it is.
	referred = 1 << 10
	// shared is that of a frame whose payloads stay in it: the last of them keeps all of it in memory.
	shared = 32 << 10
)

var generated = encoding.GetCodecV2(proto.Name)

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (Codec) Marshal(v any) (mem.BufferSlice, error) {
	if frame, ok := v.(*pb.ControllerFrame); ok && holdsLarge(frame.GetSequenced()) {
		return marshalSequenced(frame.GetSequenced()), nil
	}
	return generated.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (Codec) Unmarshal(data mem.BufferSlice, v any) error {
	frame, ok := v.(*pb.ControllerFrame)
	if !ok || data.Len() < shared {
		return generated.Unmarshal(data, v)
	}
	raw := data.Materialize() // not from a pool: the payloads stay in it
	sequenced, ok := unmarshalSequenced(raw)
	if !ok {
		return generated.Unmarshal(mem.BufferSlice{mem.SliceBuffer(raw)}, v)
	}
	frame.Reset()
	frame.Message = &pb.ControllerFrame_Sequenced{Sequenced: sequenced}
	return nil
}

// Field numbers of the schema.
const (
	frameSequenced = 3

	sequencedBinding    = 1
	sequencedDeliveries = 2

	deliveryWorkerSeq   = 1
	deliveryStoreSeq    = 2
	deliveryAttempt     = 3
	deliveryRedelivered = 4
	deliveryJob         = 5
	deliveryTicket      = 6

	jobID      = 1
	jobHeaders = 2
	jobPayload = 3

	entryKey   = 1
	entryValue = 2
)

// writer makes a message of pieces: small ones one after the other in a buffer, large ones by reference.
type writer struct {
	out    mem.BufferSlice
	buffer []byte // with room for all that is written here
	from   int    // of what is not in out yet
}

func (w *writer) refer(b []byte) {
	w.flush()
	w.out = append(w.out, mem.SliceBuffer(b))
}

func (w *writer) flush() {
	if w.from < len(w.buffer) {
		w.out = append(w.out, mem.SliceBuffer(slices.Clip(w.buffer[w.from:])))
		w.from = len(w.buffer)
	}
}

func (w *writer) length(field protowire.Number, n int) {
	w.buffer = protowire.AppendVarint(protowire.AppendTag(w.buffer, field, protowire.BytesType), uint64(n))
}

// entry writes half an entry of a map, which is there even if it is empty.
func (w *writer) entry(field protowire.Number, text string) {
	w.buffer = protowire.AppendString(protowire.AppendTag(w.buffer, field, protowire.BytesType), text)
}

func (w *writer) text(field protowire.Number, text string) {
	if text != "" {
		w.entry(field, text)
	}
}

func (w *writer) number(field protowire.Number, n uint64) {
	if n != 0 {
		w.buffer = protowire.AppendVarint(protowire.AppendTag(w.buffer, field, protowire.VarintType), n)
	}
}

// bytes writes a field that may be large.
func (w *writer) bytes(field protowire.Number, b []byte) {
	switch {
	case len(b) == 0:
	case len(b) < referred:
		w.buffer = protowire.AppendBytes(protowire.AppendTag(w.buffer, field, protowire.BytesType), b)
	default:
		w.length(field, len(b))
		w.refer(b)
	}
}

func holdsLarge(m *pb.SequencedMessage) bool {
	for _, d := range m.GetDeliveries() {
		if len(d.GetJob().GetPayload()) >= referred {
			return true
		}
	}
	return false
}

// sizes are those of one delivery.
type sizes struct{ delivery, job int }

func marshalSequenced(m *pb.SequencedMessage) mem.BufferSlice {
	each := make([]sizes, len(m.GetDeliveries()))
	total, here := sizeText(m.GetBindingId()), 0
	for i, d := range m.GetDeliveries() {
		each[i] = sizeDelivery(d)
		total += sizeBytes(each[i].delivery)
		if n := len(d.GetJob().GetPayload()); n >= referred {
			here -= n
		}
	}
	here += 1 + protowire.SizeVarint(uint64(total)) + total
	w := writer{buffer: make([]byte, 0, here)}
	w.length(frameSequenced, total)
	w.text(sequencedBinding, m.GetBindingId())
	for i, d := range m.GetDeliveries() {
		w.length(sequencedDeliveries, each[i].delivery)
		w.delivery(d, each[i].job)
	}
	w.flush()
	return w.out
}

func (w *writer) delivery(d *pb.Delivery, jobSize int) {
	w.number(deliveryWorkerSeq, uint64(d.GetWorkerSeq()))
	w.number(deliveryStoreSeq, uint64(d.GetStoreSeq()))
	w.number(deliveryAttempt, uint64(d.GetAttempt()))
	w.number(deliveryRedelivered, protowire.EncodeBool(d.GetRedelivered()))
	w.bytes(deliveryTicket, d.GetTicket())
	job := d.GetJob()
	if job == nil {
		return
	}
	w.length(deliveryJob, jobSize)
	w.text(jobID, job.GetMessageId())
	for key, value := range job.GetHeaders() {
		w.length(jobHeaders, sizeEntry(key, value))
		w.entry(entryKey, key)
		w.entry(entryValue, value)
	}
	w.bytes(jobPayload, job.GetPayload())
}

// Every field number here is below 16, so that a tag is one byte.

func sizeBytes(n int) int { return 1 + protowire.SizeBytes(n) }

func sizeText(text string) int {
	if text == "" {
		return 0
	}
	return sizeBytes(len(text))
}

func sizeNumber(n uint64) int {
	if n == 0 {
		return 0
	}
	return 1 + protowire.SizeVarint(n)
}

func sizeEntry(key, value string) int { return sizeBytes(len(key)) + sizeBytes(len(value)) }

func sizeDelivery(d *pb.Delivery) (s sizes) {
	s.delivery = sizeNumber(uint64(d.GetWorkerSeq())) + sizeNumber(uint64(d.GetStoreSeq())) + sizeNumber(uint64(d.GetAttempt())) +
		sizeNumber(protowire.EncodeBool(d.GetRedelivered()))
	if n := len(d.GetTicket()); n > 0 {
		s.delivery += sizeBytes(n)
	}
	job := d.GetJob()
	if job == nil {
		return s
	}
	s.job = sizeText(job.GetMessageId())
	for key, value := range job.GetHeaders() {
		s.job += sizeBytes(sizeEntry(key, value))
	}
	if n := len(job.GetPayload()); n > 0 {
		s.job += sizeBytes(n)
	}
	s.delivery += sizeBytes(s.job)
	return s
}

// field is one field of a message as it was read.
type field struct {
	number protowire.Number
	value  uint64 // of a varint
	bytes  []byte // nil for a varint
}

// each calls take for each field; false means that there is something that take, or the form, does not allow.
func each(raw []byte, take func(field) bool) bool {
	for len(raw) > 0 {
		number, kind, n := protowire.ConsumeTag(raw)
		if n < 0 {
			return false
		}
		raw = raw[n:]
		f := field{number: number}
		switch kind {
		case protowire.VarintType:
			f.value, n = protowire.ConsumeVarint(raw)
		case protowire.BytesType:
			f.bytes, n = protowire.ConsumeBytes(raw)
		default:
			return false
		}
		if n < 0 || !take(f) {
			return false
		}
		raw = raw[n:]
	}
	return true
}

// unmarshalSequenced reads a frame of deliveries, whose payloads and tickets stay in raw. ok is false for any other frame, and for whatever
// is unusual in this one, such as fields that this version does not know: then the generated code has to judge it.
func unmarshalSequenced(raw []byte) (m *pb.SequencedMessage, ok bool) {
	var body []byte
	count := 0
	if !each(raw, func(f field) bool {
		first := body == nil
		body = f.bytes
		return first && f.number == frameSequenced && body != nil
	}) || body == nil || !each(body, func(f field) bool {
		if f.number == sequencedDeliveries {
			count++
		}
		return true
	}) {
		return nil, false
	}
	m = &pb.SequencedMessage{Deliveries: make([]*pb.Delivery, 0, count)}
	made := make([]madeDelivery, count)
	ok = each(body, func(f field) bool {
		switch {
		case f.bytes == nil:
			return false
		case f.number == sequencedBinding:
			return readText(&m.BindingId, f.bytes)
		case f.number != sequencedDeliveries:
			return false
		}
		d := &made[len(m.Deliveries)]
		m.Deliveries = append(m.Deliveries, &d.delivery)
		return each(f.bytes, d.read)
	})
	return m, ok
}

func (m *madeDelivery) read(f field) bool {
	d := &m.delivery
	if f.bytes == nil {
		switch f.number {
		case deliveryWorkerSeq:
			d.WorkerSeq = int64(f.value)
		case deliveryStoreSeq:
			d.StoreSeq = int64(f.value)
		case deliveryAttempt:
			d.Attempt = int32(f.value)
		case deliveryRedelivered:
			d.Redelivered = f.value != 0
		default:
			return false
		}
		return true
	}
	switch f.number {
	case deliveryJob:
		if d.Job != nil {
			return false
		}
		d.Job = &m.job
		return each(f.bytes, m.readJob)
	case deliveryTicket:
		d.Ticket = slices.Clip(f.bytes)
		return true
	default:
		return false
	}
}

func (m *madeDelivery) readJob(f field) bool {
	switch {
	case f.bytes == nil:
		return false
	case f.number == jobID:
		return readText(&m.job.MessageId, f.bytes)
	case f.number == jobPayload:
		m.job.Payload = slices.Clip(f.bytes)
		return true
	case f.number != jobHeaders:
		return false
	}
	var entry [3]string // by field number
	ok := each(f.bytes, func(f field) bool {
		return f.bytes != nil && (f.number == entryKey || f.number == entryValue) && readText(&entry[f.number], f.bytes)
	})
	if m.job.Headers == nil {
		m.job.Headers = map[string]string{}
	}
	m.job.Headers[entry[entryKey]] = entry[entryValue]
	return ok
}

func readText(to *string, raw []byte) bool {
	*to = string(raw)
	return utf8.Valid(raw)
}
