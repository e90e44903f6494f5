package producer_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/workpulling/workpulling/internal/runtimeconfig"
	"github.com/workpulling/workpulling/runtime/fencing"
	"github.com/workpulling/workpulling/runtime/protocol"
	"github.com/workpulling/workpulling/runtime/queue"
	"github.com/workpulling/workpulling/runtime/queue/memory"
	"github.com/workpulling/workpulling/runtime/transport"
	"github.com/workpulling/workpulling/runtime/transport/transporttest"
)

// database is a queue that outlives its producers, as one in a server of its own does.
type database struct {
	queue.WorkQueue
	mu    sync.Mutex
	owner queue.Owner
	down  error // what every operation answers
}

func newDatabase(t *testing.T) *database {
	t.Helper()
	back, err := memory.New(memory.Options{DeduplicationWindow: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = back.Close() })
	return &database{WorkQueue: back}
}

func (d *database) fail(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.down = err
}

func (d *database) broken() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.down
}

func (d *database) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.down != nil {
		return queue.State{}, 0, d.down
	}
	state, epoch, err := d.WorkQueue.Load(ctx, owner, visit)
	if err == nil {
		d.owner = queue.Owner{Epoch: epoch, Address: owner}
	}
	return state, epoch, err
}

func (d *database) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	if err := d.broken(); err != nil {
		return queue.Result{}, err
	}
	return d.WorkQueue.Apply(ctx, epoch, batch)
}

func (d *database) Owner(context.Context) (queue.Owner, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.owner, d.down
}

// connection is one producer's way to the database. Closing it closes nothing else.
type connection struct {
	*database
	mu  sync.Mutex
	cut error
}

func (c *connection) sever(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.cut = err
}

func (c *connection) severed() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.cut
}

func (c *connection) Load(ctx context.Context, owner string, visit func(queue.Row) error) (queue.State, queue.Epoch, error) {
	if err := c.severed(); err != nil {
		return queue.State{}, 0, err
	}
	return c.database.Load(ctx, owner, visit)
}

func (c *connection) Apply(ctx context.Context, epoch queue.Epoch, batch queue.Batch) (queue.Result, error) {
	if err := c.severed(); err != nil {
		return queue.Result{}, err
	}
	return c.database.Apply(ctx, epoch, batch)
}

func (c *connection) Owner(ctx context.Context) (queue.Owner, error) {
	if err := c.severed(); err != nil {
		return queue.Owner{}, err
	}
	return c.database.Owner(ctx)
}

func (c *connection) Close() error { return nil }

// leases is the Lease of a flow at an API server that may be away.
type leases struct {
	mu     sync.Mutex
	record fencing.LeaseRecord
	writes int
	away   bool
}

var errAway = errors.New("the API server is away")

func (l *leases) Read(context.Context) (fencing.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return fencing.LeaseRecord{}, errAway
	}
	return l.record, nil
}

func (l *leases) Hold(_ context.Context, holder string, _ time.Duration, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	return l.write(holder, seen)
}

func (l *leases) Halt(_ context.Context, word string, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	record, err := l.write(seen.Holder, seen)
	if err != nil {
		return record, err
	}
	record.Halted = word
	l.set(func(l *leases) { l.record.Halted = word })
	return record, nil
}

func (l *leases) Release(_ context.Context, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	return l.write("", seen)
}

func (l *leases) write(holder string, seen fencing.LeaseRecord) (fencing.LeaseRecord, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away {
		return fencing.LeaseRecord{}, errAway
	}
	if seen.Version != l.record.Version {
		return fencing.LeaseRecord{}, errors.New("conflict")
	}
	l.writes++
	l.record.Holder, l.record.Version = holder, strconv.Itoa(l.writes)
	return l.record, nil
}

func (l *leases) set(change func(*leases)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	change(l)
}

func (l *leases) holder() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.record.Holder
}

// crew is the producers of one flow with a shared queue.
type crew struct {
	t           *testing.T
	database    *database
	leases      *leases
	members     []*pod
	connections []*connection
}

// newCrew makes size members, none of which runs yet.
func newCrew(t *testing.T, size int) *crew {
	t.Helper()
	c := &crew{t: t, database: newDatabase(t), leases: &leases{record: fencing.LeaseRecord{Version: "0"}}}
	authority := transporttest.NewAuthority(t)
	for i := range size {
		p := newPodOf(t, authority)
		connection := &connection{database: c.database}
		p.document.QueueType, p.document.Replicas, p.document.DeadlineSec = "PostgreSQL", size, 4
		p.options.Incarnation = protocol.Incarnation{PodUID: fmt.Sprint("uid-", i), BootNonce: "boot"}
		p.options.PodName, p.options.Host = fmt.Sprint("orders-producer-", i), "127.0.0.1"
		p.options.Lease = c.leases
		p.options.OpenQueue = func(context.Context, time.Duration) (queue.WorkQueue, error) { return connection, nil }
		c.members = append(c.members, p)
		c.connections = append(c.connections, connection)
	}
	return c
}

func startCrew(t *testing.T, size int) *crew {
	t.Helper()
	c := newCrew(t, size)
	for _, p := range c.members {
		p.start()
	}
	t.Cleanup(func() { // together, for each stays for a while to pass requests on; its own cleanup tells how it ended
		var stops sync.WaitGroup
		for _, p := range c.members {
			stops.Go(func() { _ = p.stop() })
		}
		stops.Wait()
	})
	c.active()
	return c
}

// active waits until exactly one member says that it has the queue, and that is the one that loaded last. It returns its number.
func (c *crew) active(except ...int) int {
	c.t.Helper()
	found := -1
	c.members[0].until("one active member", func() bool {
		owner, _ := c.database.Owner(c.t.Context())
		member, err := fencing.ParseMember(owner.Address)
		if err != nil {
			return false
		}
		count := 0
		for i, p := range c.members {
			if _, text := p.get("http://" + p.options.MetricsAddress + "/metrics"); strings.Contains(text, "workpulling_flow_member_active 1") &&
				strings.Contains(text, `workpulling_flow_phase{phase="Running"} 1`) {
				count++
				found = i
			}
		}
		if count != 1 || member.PodUID != c.members[found].options.Incarnation.PodUID {
			return false
		}
		return !slices.Contains(except, found)
	})
	return found
}

// another is a member that is not the given one.
func (c *crew) another(than int) *pod { return c.members[(than+1)%len(c.members)] }

func (c *crew) holderOf(i int) string {
	o := c.members[i].options
	return o.PodName + "/" + o.Incarnation.PodUID + "/" + o.Incarnation.BootNonce
}

// stored submits a job at a member until it is taken.
func (c *crew) stored(at *pod, key, query string) string {
	c.t.Helper()
	var answer string
	at.until("job "+key+" is stored", func() bool {
		status, body := at.submit(key, query)
		answer = body
		return status == 201 || status == 200
	})
	return answer
}

func TestOneMemberHasTheQueueAndTheOthersStandBy(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	states := map[string]int{}
	for i, p := range c.members {
		p.until("it reports what it is", func() bool {
			s := p.operator.stats()
			owner, _ := c.database.Owner(t.Context())
			return s != nil && (s.State == "Running") == (i == active) && s.Epoch == uint64(owner.Epoch)
		})
		s := p.operator.stats()
		states[s.State]++
		if !s.QueueAvailable || s.PodName != p.options.PodName {
			t.Errorf("member %d reports %v", i, s)
		}
	}
	if diff := cmp.Diff(map[string]int{"Running": 1, "Standby": 2}, states); diff != "" {
		t.Error(diff)
	}
	c.members[0].until("the Lease names it", func() bool { return c.leases.holder() == c.holderOf(active) })
}

// Any member takes jobs in, answers ?wait=confirmed and looks jobs up; a worker that dials a standby finds the active one.
func TestAnyMemberAnswers(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	standby := c.another(active)
	standby.workAs("w")
	if body := c.stored(standby, "waits", "?wait=confirmed"); !strings.Contains(body, "confirmed") {
		t.Error(body)
	}
	if status, body := c.members[active].submit("waits", ""); status != 200 {
		t.Errorf("the same key at another member: %d %s", status, body)
	}
	for path, want := range map[string]int{"/jobs/nobody": 404, "/dead-letters": 200} {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+standby.options.IntakeAddress+"/v1/flows/orders"+path, http.NoBody)
		request.Header.Set("Authorization", "Bearer user:alice")
		response, err := standby.client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		if response.StatusCode != want {
			t.Errorf("%s: %d", path, response.StatusCode)
		}
	}
}

// A request that has been passed on already is not passed on again, so that there is no loop.
func TestOneHopIsTheLimit(t *testing.T) {
	c := startCrew(t, 2)
	standby := c.another(c.active())
	request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+standby.options.IntakeAddress+"/v1/flows/orders/jobs", strings.NewReader("x"))
	request.Header.Set("Idempotency-Key", "k")
	request.Header.Set("Workpulling-Hop", "1")
	request.Header.Set("Authorization", "Bearer user:alice")
	response, err := standby.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") == "" {
		t.Errorf("%d, Retry-After %q", response.StatusCode, response.Header.Get("Retry-After"))
	}
}

// The app beside a standby reaches the flow over its socket; the pod's own token goes along.
func TestTheSocketOfAStandbyWorks(t *testing.T) {
	c := newCrew(t, 2)
	for _, p := range c.members {
		p.options.TokenFile = transporttest.TokenFile(t, "user:beside")
		p.start()
	}
	standby := c.another(c.active())
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", standby.options.IntakeSocket)
	}}}
	post := func(path string) int {
		request, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://intake/v1/flows/orders/"+path, strings.NewReader("x"))
		request.Header.Set("Idempotency-Key", "beside")
		response, err := client.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	standby.until("stored", func() bool { return post("jobs") == 201 })
	if status := post("dead-letters/1/redrive"); status != 403 {
		t.Errorf("a person's right over the socket of a standby: %d", status)
	}
}

// A planned end hands the queue over at once, and nothing that was accepted is lost (B-074).
func TestAStopHandsTheQueueOver(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	other := c.another(active)
	for i := range 20 {
		c.stored(other, fmt.Sprint("before ", i), "")
	}
	began := time.Now()
	stopped := make(chan error, 1)
	go func() { stopped <- c.members[active].stop() }()
	next := c.active(active)
	took := time.Since(began)
	if took > 3*time.Second {
		t.Errorf("the hand-over took %s", took)
	}
	for i := range 20 {
		if status, body := c.members[next].submit(fmt.Sprint("before ", i), ""); status != 200 {
			t.Errorf("job %d is not known after the takeover: %d %s", i, status, body)
		}
	}
	if err := <-stopped; err != nil {
		t.Error(err)
	}
	other.workAs("w")
	if body := c.stored(c.members[next], "after", "?wait=confirmed"); !strings.Contains(body, "confirmed") {
		t.Error(body)
	}
}

// Without the API server there is no Lease, and a standby takes over all the same (B-252).
func TestTakeoverWithoutTheAPIServer(t *testing.T) {
	c := startCrew(t, 3)
	active := c.active()
	c.leases.set(func(l *leases) { l.away = true })
	c.stored(c.another(active), "kept", "")
	if err := c.members[active].stop(); err != nil {
		t.Fatal(err)
	}
	next := c.active(active)
	if body := c.stored(c.members[next], "kept", ""); !strings.Contains(body, `"new":false`) {
		t.Error(body)
	}
}

// The loss of the Lease ends nobody who has the queue (B-253).
func TestALostLeaseStopsNobody(t *testing.T) {
	c := startCrew(t, 3)
	active, epoch := c.active(), c.database.owner.Epoch
	c.leases.set(func(l *leases) { l.record = fencing.LeaseRecord{Holder: "somebody", Version: "stolen"} })
	pace := time.NewTicker(35 * time.Millisecond)
	defer pace.Stop()
	for i := range 30 {
		c.stored(c.another(active), fmt.Sprint(i), "")
		<-pace.C
	}
	c.leases.set(func(l *leases) { l.record = fencing.LeaseRecord{Holder: "", Version: "free"} })
	for i := range 30 {
		c.stored(c.another(active), fmt.Sprint("more ", i), "")
		<-pace.C
	}
	if now := c.active(); now != active || c.database.owner.Epoch != epoch {
		t.Errorf("member %d with epoch %d, had been %d with %d", now, c.database.owner.Epoch, active, epoch)
	}
}

// A member that is fenced out stands by, and its flow goes on: no failure is reported (B-070).
func TestAFencedMemberStandsBy(t *testing.T) {
	c := startCrew(t, 2)
	active := c.active()
	p := c.members[active]
	failed := false
	watch := func() {
		for _, m := range c.members {
			failed = failed || m.operator.stats().GetFailureStage() != "" || m.operator.stats().GetState() == "Failed"
		}
	}
	c.stored(p, "kept", "")
	epoch := uint64(c.database.owner.Epoch)
	if _, _, err := c.database.Load(t.Context(), "a stranger", func(queue.Row) error { return nil }); err != nil {
		t.Fatal(err)
	}
	p.until("it is fenced out", func() bool {
		watch()
		_, text := p.get("http://" + p.options.MetricsAddress + "/metrics")
		return strings.Contains(text, "workpulling_flow_member_fenced_total 1")
	})
	p.until("somebody takes the queue from the silent stranger", func() bool {
		watch()
		owner, _ := c.database.Owner(t.Context())
		return owner.Address != "a stranger"
	})
	next := c.active()
	if body := c.stored(c.members[next], "kept", ""); !strings.Contains(body, `"new":false`) {
		t.Error(body)
	}
	if failed {
		t.Error("a failure of the flow was reported")
	}
	p.until("it says which writer was fenced, for as long as it lives", func() bool {
		fenced := p.operator.stats().GetFenced()
		return len(fenced) == 1 && fenced[0].Epoch == epoch && fenced[0].Reason != ""
	})
}

// A member whose own way to the queue is broken loses it to one whose way is not, and does not take it back when it heals.
func TestAMemberThatIsCutOffFromTheQueueIsReplaced(t *testing.T) {
	c := startCrew(t, 2)
	active := c.active()
	c.stored(c.members[active], "kept", "")
	c.connections[active].sever(errors.New("no route to the database"))
	answer := make(chan int, 1)
	go func() {
		status, _ := c.members[active].submit("lost on its way", "")
		answer <- status
	}()
	next := c.active(active)
	epoch := c.database.owner.Epoch
	c.connections[active].sever(nil)
	if status := <-answer; status == 201 {
		t.Error("stored without a database")
	}
	c.members[active].until("it stands by again", func() bool {
		s := c.members[active].operator.stats()
		return s.GetState() == "Standby" && s.GetQueueAvailable()
	})
	if body := c.stored(c.members[active], "kept", ""); !strings.Contains(body, `"new":false`) {
		t.Error(body)
	}
	if now := c.active(); now != next || c.database.owner.Epoch != epoch {
		t.Errorf("member %d has the queue under epoch %d, want %d under %d", now, c.database.owner.Epoch, next, epoch)
	}
}

// While the database is away nobody takes anything from anybody.
func TestAnOutageOfTheQueueMovesNothing(t *testing.T) {
	c := startCrew(t, 2)
	active := c.active()
	c.stored(c.members[active], "kept", "")
	c.database.fail(errors.New("the database is away"))
	answered := make(chan struct{})
	go func() { // it is answered when the database is back, or not in time
		defer close(answered)
		_, _ = c.members[active].submit("unknown outcome", "")
	}()
	c.members[active].until("both say so", func() bool {
		return !c.members[0].operator.stats().GetQueueAvailable() && !c.members[1].operator.stats().GetQueueAvailable()
	})
	<-time.After(10 * time.Second) // long enough for both to act, if they would, and for the owner to wait longer than a standby does
	c.database.fail(nil)
	<-answered
	if now := c.active(); now != active {
		t.Errorf("member %d has the queue, had been %d", now, active)
	}
	if body := c.stored(c.another(active), "kept", ""); !strings.Contains(body, `"new":false`) {
		t.Error(body)
	}
}

// A Secret that is not there is a state that a person can read, and no crash.
func TestAMissingConnectionStringIsReported(t *testing.T) {
	p := newPod(t)
	p.document.QueueType, p.document.QueueSecret, p.document.QueueKey = "PostgreSQL", "orders-db", "dsn"
	p.options.Host, p.options.QueueDir, p.options.Lease = "127.0.0.1", t.TempDir(), &leases{}
	p.configure(nil)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	go func() { done <- p.run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	p.until("the operator knows", func() bool {
		s := p.operator.stats()
		return s.GetState() == "Standby" && s.GetQueueCode() == runtimeconfig.QueueConnectionMissing && strings.Contains(s.GetQueueMessage(), `Secret "orders-db"`)
	})
	if status, body := p.get("http://" + p.options.HealthAddress + "/readyz"); status != 503 || !strings.Contains(body, "orders-db") {
		t.Errorf("%d %s", status, body)
	}
}

// A producer endpoint's stream at a standby goes on to the active member.
func TestAProducerStreamIsPassedOn(t *testing.T) {
	c := startCrew(t, 2)
	standby := c.another(c.active())
	peer := transport.Peer{
		Address: standby.options.TransportAddress, TLS: transport.ClientTLS(standby.authority.CAFile(), host), TokenFile: transporttest.TokenFile(t, "user:alice"),
	}
	var stream *transport.ProducerStream
	var grant protocol.RequestNext
	standby.until("credit", func() bool {
		opened, err := peer.DialProducer(t.Context())
		if err != nil {
			return false
		}
		messages, err := opened.Recv()
		if err != nil {
			opened.Close()
			return false
		}
		grant, _ = messages[0].(protocol.RequestNext)
		stream = opened
		return true
	})
	defer stream.Close()
	if err := stream.Send(protocol.Produced{Session: grant.Session, Token: 1, Job: protocol.Job{MessageID: "over two", Payload: []byte("x")}}); err != nil {
		t.Fatal(err)
	}
	for {
		messages, err := stream.Recv()
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range messages {
			if stored, ok := message.(protocol.Stored); ok {
				if stored.MessageID != "over two" || stored.Verdict != protocol.StoredNew {
					t.Errorf("%+v", stored)
				}
				return
			}
		}
	}
}
