package harness

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
)

// Effects reads the effects store of config/samples, through the API server unless Address is set.
type Effects struct {
	Kubectl   *Kubectl
	Namespace string
	// Address is host:port of the store's pod, for a cluster whose pods this machine reaches: it goes on without an API server.
	Address string
}

// Effect is what the store knows about one message id.
type Effect struct {
	MessageID string `json:"messageID"`
	EventID   string `json:"eventID"`
	Source    string `json:"source"`
	Started   int    `json:"started"`
	Finished  int    `json:"finished"`
	Worker    string `json:"worker"`
	Analysis  *struct {
		SHA256 string `json:"sha256"`
	} `json:"analysis"`
}

// EffectSummary counts the effects of one source.
type EffectSummary struct {
	Jobs     int `json:"jobs"`
	Effects  int `json:"effects"`
	Started  int `json:"started"`
	Finished int `json:"finished"`
}

const effectsService = "services/http:effects:80"

func (e *Effects) read(ctx context.Context, path string) (string, error) {
	if e.Address != "" {
		return direct(ctx, e.Address, path)
	}
	return e.Kubectl.Proxy(ctx, e.Namespace, effectsService, path)
}

// Summary counts the effects of one source.
func (e *Effects) Summary(ctx context.Context, source string) (s EffectSummary, err error) {
	text, err := e.read(ctx, "/v1/summary?source="+url.QueryEscape(source))
	if err != nil {
		return s, err
	}
	if err := json.Unmarshal([]byte(text), &s); err != nil {
		return s, fmt.Errorf("decoding the summary of the effects: %w", err)
	}
	return s, nil
}

// List returns the effects of one source.
func (e *Effects) List(ctx context.Context, source string) ([]Effect, error) {
	text, err := e.read(ctx, "/v1/effects?source="+url.QueryEscape(source))
	if err != nil {
		return nil, err
	}
	var effects []Effect
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		var effect Effect
		if err := json.Unmarshal(lines.Bytes(), &effect); err != nil {
			return nil, fmt.Errorf("decoding an effect: %w", err)
		}
		effects = append(effects, effect)
	}
	return effects, lines.Err()
}

// Verdict compares the effects of a run with the documents that were submitted.
type Verdict struct {
	Submitted int
	// Effects counts documents with an effect of the right content.
	Effects int
	// Lost counts documents without an effect, Wrong those whose effect has other content.
	Lost, Wrong int
	// Foreign counts effects of the run's source that belong to no document, Split documents with more than one message id.
	Foreign, Split int
	// Redelivered counts executions beyond the first of each job, Duplicates those of them that finished again.
	Redelivered, Duplicates int
}

// Clean says that every document has its one right effect.
func (v Verdict) Clean() bool {
	return v.Effects == v.Submitted && v.Lost == 0 && v.Wrong == 0 && v.Foreign == 0 && v.Split == 0
}

// Judge compares.
func Judge(documents []Document, effects []Effect) Verdict {
	v := Verdict{Submitted: len(documents)}
	found := map[string]Effect{}
	for _, effect := range effects {
		if _, twice := found[effect.EventID]; twice {
			v.Split++
		}
		found[effect.EventID] = effect
		v.Redelivered += effect.Started - 1
		v.Duplicates += max(effect.Finished-1, 0)
	}
	for _, d := range documents {
		effect, ok := found[d.ID]
		switch {
		case !ok || effect.Finished == 0:
			v.Lost++
		case effect.Analysis == nil || effect.Analysis.SHA256 != d.SHA256():
			v.Wrong++
		default:
			v.Effects++
		}
		delete(found, d.ID)
	}
	v.Foreign = len(found)
	return v
}
