package endpoint

import (
	"errors"
	"slices"
	"testing"

	"github.com/go-logr/logr"

	"github.com/workpulling/workpulling/runtime/delivery"
	"github.com/workpulling/workpulling/runtime/protocol"
)

// I-12: a submission that was begun in an earlier session waits for credit at the head of the line for as long as it takes. What is
// refused behind it leaves nothing, or a full flow would eat memory at the rate of its refusals.
func TestRefusedSubmissionsLeaveNothingInLine(t *testing.T) {
	p := NewProducer(ProducerOptions{Config: delivery.DefaultControllerConfig(), Log: logr.Discard(), Intake: delivery.SetIntake{Open: true}})
	waits := func() *submission {
		job := protocol.Job{MessageID: "id", Payload: []byte("payload")}
		return &submission{entry: Submission{Job: job, Reply: alone()}}
	}
	begun := waits()
	begun.token = 7
	p.desk.waiting = append(p.desk.waiting, begun)
	patient := waits()
	p.desk.submit([]*submission{patient})
	longest := 0
	for range 10_000 {
		impatient := waits()
		p.desk.submit([]*submission{impatient})
		p.desk.withdraw(impatient)
		if answer := answerTo(impatient); !errors.Is(answer.Err, ErrUnavailable) {
			t.Fatalf("answered %+v", answer)
		}
		longest = max(longest, len(p.desk.waiting))
	}
	if longest > 8 {
		t.Errorf("%d submissions in line", longest)
	}
	if len(p.desk.waiting) < 2 || p.desk.waiting[0] != begun || p.desk.waiting[1] != patient {
		t.Errorf("those who wait lost their place: %v", p.desk.waiting)
	}
}

// A receipt is its caller's: what the controller repeats, or says of the same job in another session, does not change it in the caller's hands.
func TestReceiptKeepsWhatItSaid(t *testing.T) {
	p := NewProducer(ProducerOptions{Config: delivery.DefaultControllerConfig(), Log: logr.Discard(), Intake: delivery.SetIntake{Open: true}})
	s := &submission{entry: Submission{Job: protocol.Job{MessageID: "id", Payload: []byte("payload")}, Reply: alone()}, token: 1}
	p.desk.renew("one")
	p.desk.open[1] = s
	p.desk.told(&protocol.Stored{Session: "one", Token: 1, MessageID: "id", StoreSeq: 5, Verdict: protocol.StoredNew})
	receipt := answerTo(s).Receipt
	p.desk.renew("two")
	p.desk.waiting, s.token = nil, 2
	p.desk.open[2] = s
	p.desk.told(&protocol.Stored{Session: "two", Token: 2, MessageID: "id", StoreSeq: 5, Verdict: protocol.AlreadyStored})
	if receipt.Verdict != protocol.StoredNew || receipt.Session != "one" || receipt.Token != 1 {
		t.Errorf("the receipt says %+v now", receipt.Stored)
	}
	p.desk.acknowledge(s)
	if len(p.desk.open) != 0 {
		t.Error("the acknowledgement is not that of the session that lives")
	}
}

// alone is the place of a batch of one.
func alone() *place {
	b := newBatch(1)
	b.open = 1
	return &b.places[0]
}

func answerTo(s *submission) Answer {
	b := s.entry.Reply.(*place).batch
	<-b.complete
	return b.answers[0]
}

// Who is not waited for is answered to nobody, and that counts as delivered; what came before is the caller's.
func TestAbandonedBatch(t *testing.T) {
	b := newBatch(3)
	b.open = 3
	first := Answer{Err: ErrSuspended}
	if b.places[1].Answered(first) {
		t.Error("an answer counts as delivered before its caller has it")
	}
	b.abandon(ErrUnavailable)
	if !b.places[0].Answered(Answer{Receipt: &Receipt{}}) {
		t.Error("an answer to nobody has to be acknowledged")
	}
	if want := []Answer{{Err: ErrUnavailable}, first, {Err: ErrUnavailable}}; !slices.Equal(b.answers, want) {
		t.Errorf("answers %+v", b.answers)
	}
}
