package certs

import (
	"context"
	"crypto"
	"crypto/x509"
	"fmt"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/keyutil"
)

const (
	// askAgain is how long a refusal stands.
	askAgain = 10 * time.Minute
	// lookLeast and lookMost are how often a request is looked at: as often as half of the time that it took until now.
	lookLeast, lookMost = time.Second, time.Minute
	// slow is how long an issuer may take before that is told.
	slow = 30 * time.Second
	// shortest is the life of a certificate whose half is the seven days that pods must be able to go on without the operator.
	shortest = 14 * 24 * time.Hour
)

// recollection is what this process knows of an entry besides the Secret. A new leader begins anew, and waits longer for it, never shorter.
type recollection struct {
	// asked is when it first saw the request without an answer, looked when it read that last, and answer what it read.
	asked, looked time.Time
	answer        answer
	// announced is since when the bundle holds what will verify the next certificate, settled since when the present one is the only one.
	announced, settled time.Time
	// told is the trouble that was told of last.
	told string
}

// recollections are those of all entries. The zero value has none.
type recollections struct {
	mu sync.Mutex
	of map[types.NamespacedName]*recollection
}

// about returns the recollection of one entry, which is reconciled by one goroutine at a time.
func (r *recollections) about(s Serving) *recollection {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := types.NamespacedName{Namespace: s.Namespace, Name: s.Entry}
	if r.of == nil {
		r.of = map[types.NamespacedName]*recollection{}
	}
	if r.of[key] == nil {
		r.of[key] = &recollection{}
	}
	return r.of[key]
}

func (r *recollections) forget(namespace, entry string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.of, types.NamespacedName{Namespace: namespace, Name: entry})
}

// begin counts from the first call, for as long as start is kept.
func begin(start *time.Time, now time.Time) time.Duration {
	if start.IsZero() {
		*start = now
	}
	return now.Sub(*start)
}

// until is how long the pause after start still takes.
func until(start *time.Time, pause time.Duration, now time.Time) time.Duration {
	return max(pause-begin(start, now), 0)
}

// wait is when to look at a request again.
func (r *recollection) wait(now time.Time) time.Duration {
	return min(max(begin(&r.asked, now)/2, lookLeast), lookMost)
}

// turn is one look at an entry whose certificate an issuer outside gives.
type turn struct {
	*recollection
	outside *Outside
	serving Serving
	own     *x509.CertPool
	pause   time.Duration
	now     time.Time
}

// take brings the entry one step further. What it returns has to be written.
func (t *turn) take(ctx context.Context, e entry) (entry, Issued, error) {
	cert, serves := e.verified(t.own, t.serving.Hosts, t.now)
	if serves && e.issuer == t.outside.Ref.String() && !t.due(e, cert) {
		t.recollection.asked, t.recollection.announced = time.Time{}, time.Time{}
		return e.quiet(), t.current(e, cert), nil
	}
	after, a, err := t.request(ctx, e)
	if err != nil {
		return e, Issued{}, err
	}
	if a.standing == granted {
		if err := t.check(after, a); err != nil {
			a = answer{standing: failed, trouble: true, at: t.asked, message: t.outside.Ref.String() + " gave a certificate that cannot serve: " + err.Error()}
		}
	}
	switch {
	case a.standing == granted && (!serves || t.known(after, a) || t.announce(&after, a)):
		after = after.serve(a.cert, after.nextKey, a.authority)
		after.issuer, after.since = t.outside.Ref.String(), t.now
		cert, _ = after.verified(t.own, t.serving.Hosts, t.now)
		return after, t.current(after, cert), nil
	case a.standing == granted:
		return after, t.present(cert, until(&t.announced, t.pause, t.now)), nil
	case a.standing == failed && !t.now.Before(a.at.Add(askAgain)):
		if after, err = t.newRequest(after); err != nil {
			return e, Issued{}, err
		}
	}
	if serves {
		return after, t.late(cert, a), nil
	}
	return after, t.missing(a), nil
}

// due says whether the certificate has to be replaced: for its age, or because a person asks for it.
func (t *turn) due(e entry, cert *x509.Certificate) bool {
	wanted := t.serving.RenewBefore
	return !t.now.Before(renewFrom(e, cert)) || !t.now.Before(wanted) && e.since.Before(wanted)
}

// renewFrom is when half of a certificate's life is over. Of one that is half over when it comes, half of the rest counts, and a minute at
// least: its issuer is not asked all the time.
func renewFrom(e entry, cert *x509.Certificate) time.Time {
	if soonest := e.since.Add(max(cert.NotAfter.Sub(e.since)/2, lookMost)); soonest.After(renewAt(cert)) {
		return soonest
	}
	return renewAt(cert)
}

// newRequest gives the entry another key; the request for the former one is removed when it is looked at.
func (t *turn) newRequest(e entry) (entry, error) {
	_, encoded, err := newKey()
	if err != nil {
		return e, err
	}
	e.nextKey, e.nextAuthority = encoded, nil
	t.recollection.asked, t.recollection.looked, t.recollection.announced, t.recollection.answer = time.Time{}, time.Time{}, time.Time{}, answer{}
	return e, nil
}

// request makes the request for the next certificate, or sees what became of it. The key is in the Secret before anybody is asked.
func (t *turn) request(ctx context.Context, e entry) (entry, answer, error) {
	key, err := keyIn(e.nextKey)
	if err != nil {
		after, err := t.newRequest(e)
		return after, answer{standing: waiting, message: "a key for it was made"}, err
	}
	if t.now.Before(t.looked.Add(t.wait(t.now))) {
		return e, t.answer, nil
	}
	a, err := t.outside.look(ctx, t.serving, key)
	if err == nil && a.standing == unasked {
		a = answer{standing: waiting, message: t.outside.Ref.String() + " was asked"}
		err = t.outside.ask(ctx, t.serving, key)
	}
	if err != nil {
		if a, err = hindrance(ctx, err); err != nil {
			return e, answer{}, err
		}
	}
	if a.standing == waiting && begin(&t.asked, t.now) >= slow {
		a.trouble = true
	}
	if a.at.IsZero() {
		a.at = t.asked
	}
	t.recollection.looked, t.recollection.answer = t.now, a
	return e, a, nil
}

func keyIn(text []byte) (crypto.Signer, error) {
	parsed, err := keyutil.ParsePrivateKeyPEM(text)
	if err != nil {
		return nil, fmt.Errorf("reading a key: %w", err)
	}
	key, ok := parsed.(crypto.Signer)
	if !ok {
		return nil, fmt.Errorf("a %T cannot sign", parsed)
	}
	return key, nil
}

// check refuses a certificate that peers would refuse.
func (t *turn) check(e entry, a answer) error {
	roots := rootsIn(a.authority)
	if len(roots) == 0 {
		return fmt.Errorf("status.ca of CertificateRequest %s holds no certificate of an authority", t.serving.Entry)
	}
	have, err := decode(a.cert, e.nextKey)
	if err != nil {
		return err
	}
	return verify(have.cert, chainIn(a.cert), poolOf(roots), t.serving.Hosts, t.now)
}

// known says whether peers verify the present certificate with what verifies the next.
func (t *turn) known(e entry, a answer) bool {
	return len(without(rootsIn(a.authority), rootsIn(e.authority))) == 0
}

// announce puts what verifies the next certificate into the bundle, and says whether it has been there for as long as kubelets need.
func (t *turn) announce(e *entry, a answer) bool {
	if len(without(rootsIn(a.authority), rootsIn(e.nextAuthority))) > 0 {
		e.nextAuthority, t.recollection.announced = a.authority, time.Time{}
	}
	return until(&t.announced, t.pause, t.now) == 0
}

// present describes the certificate that serves for now.
func (t *turn) present(cert *x509.Certificate, again time.Duration) Issued {
	return Issued{Expires: cert.NotAfter, RenewIn: max(again, lookLeast)}
}

// current describes a certificate that is as it should be.
func (t *turn) current(e entry, cert *x509.Certificate) Issued {
	out := Issued{Expires: cert.NotAfter, RenewIn: renewFrom(e, cert).Sub(t.now)}
	if t.now.Before(t.serving.RenewBefore) {
		out.RenewIn = min(out.RenewIn, t.serving.RenewBefore.Sub(t.now))
	}
	var late string
	if life := cert.NotAfter.Sub(cert.NotBefore); life < shortest {
		late = fmt.Sprintf("%s gives certificates for %s; with less than %s, pods cannot do for a week without the operator", t.outside.Ref, life, shortest)
	}
	return t.tell(out, late)
}

// late describes a certificate that should be replaced and serves on.
func (t *turn) late(cert *x509.Certificate, a answer) Issued {
	var late string
	if a.trouble {
		late = fmt.Sprintf("the next certificate does not come, the present one ends %s: %s", cert.NotAfter.UTC().Format(time.RFC3339), a.message)
	}
	return t.tell(t.present(cert, t.wait(t.now)), late)
}

// missing says why there is nothing to serve with.
func (t *turn) missing(a answer) Issued {
	out := Issued{RenewIn: t.wait(t.now), Missing: "there is no certificate yet: " + a.message}
	if !a.trouble {
		return t.tell(out, "")
	}
	return t.tell(out, out.Missing)
}

// tell notes a trouble, and whether it is news.
func (t *turn) tell(out Issued, trouble string) Issued {
	out.Trouble, out.News = trouble, trouble != "" && trouble != t.told
	t.recollection.told = trouble
	return out
}
