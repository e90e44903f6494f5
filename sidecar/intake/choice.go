package intake

import (
	"context"
	"net/url"
	"strings"
	"time"

	"github.com/workpulling/workpulling/runtime/queue"
)

// maxScan is how many dead letters one request looks at.
const maxScan = 10_000

// choice is a filter of dead letters; the zero value matches all.
type choice struct {
	// reason is part of the reason, id the beginning of the id: a source, or a submitter.
	reason, id string
	// from and to bound the time since when it is one: from ≤ t < to. Zero means no bound.
	from, to time.Time
}

// choiceOf reads the filter of a query. explicit says that there is one, or that all are meant.
func choiceOf(query url.Values) (c choice, explicit bool, err error) {
	c = choice{reason: query.Get("reason"), id: query.Get("id")}
	if c.from, err = instant(query.Get("from")); err == nil {
		c.to, err = instant(query.Get("to"))
	}
	if err != nil {
		return choice{}, false, err
	}
	all := query.Get("all")
	if all != "" && all != "true" {
		return choice{}, false, malformed("all is %q; it can be \"true\" or be left out", all)
	}
	if all != "" && c != (choice{}) {
		return choice{}, false, malformed("all and a filter exclude each other")
	}
	return c, all != "" || c != (choice{}), nil
}

func instant(text string) (time.Time, error) {
	if text == "" {
		return time.Time{}, nil
	}
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		return time.Time{}, malformed("from and to are RFC 3339 time stamps such as 2026-01-31T12:00:00Z")
	}
	return at, nil
}

func (c choice) matches(l queue.DeadLetter) bool {
	return strings.Contains(l.Reason, c.reason) && strings.HasPrefix(l.MessageID, c.id) &&
		!l.Since.Before(c.from) && (c.to.IsZero() || l.Since.Before(c.to))
}

// scan returns at most limit chosen dead letters above after, ascending, and where to go on: next is 0 behind the last.
func (i *Intake) scan(ctx context.Context, after int64, limit int, chosen choice) (found []queue.DeadLetter, next int64, err error) {
	size := maxPage
	if chosen == (choice{}) {
		size = min(limit, maxPage)
	}
	for seen := 0; limit > 0 && seen < maxScan; seen += size {
		page, err := i.options.Flow.ListDeadLetters(ctx, after, size)
		if err != nil {
			return nil, 0, err
		}
		for _, l := range page {
			after = l.StoreSeq
			if chosen.matches(l) {
				if found = append(found, l); len(found) == limit {
					return found, after, nil
				}
			}
		}
		if len(page) < size {
			return found, 0, nil
		}
	}
	if limit == 0 {
		return nil, 0, nil
	}
	return found, after, nil
}
