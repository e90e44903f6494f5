package main

import (
	"github.com/workpulling/workpulling/test/bench/internal/bounds"
	"github.com/workpulling/workpulling/test/bench/internal/ours"
	"github.com/workpulling/workpulling/test/bench/internal/peers"
	"github.com/workpulling/workpulling/test/bench/internal/trial"
)

// systems are all contestants, ours first.
func systems() []trial.System {
	return []trial.System{
		&ours.InProcess{Backend: ours.Memory},
		&ours.Direct{Backend: ours.Memory},
		&ours.Plain{},
		&ours.Direct{Backend: ours.Local},
		&ours.Direct{Backend: ours.PostgreSQL},
		&ours.Sidecars{Backend: ours.Memory, Streams: true},
		&ours.Sidecars{Backend: ours.Local, Streams: true},
		&ours.Sidecars{Backend: ours.Memory},
		&ours.Sidecars{Backend: ours.Local},
		&peers.JetStream{Storage: peers.InMemory},
		&peers.JetStream{Storage: peers.InFile},
		&peers.JetStream{Storage: peers.SyncAlways},
		&peers.RabbitMQ{},
		&peers.River{},
		&peers.Asynq{},
		&bounds.Echo{Batch: 1},
		&bounds.Echo{Batch: 64},
		&bounds.Relay{},
		&bounds.Relay{Durable: true},
		&bounds.Relay{Hops: true},
		&bounds.Relay{Hops: true, Durable: true},
		&bounds.HTTPRelay{},
		&bounds.HTTPRelay{Durable: true},
		&bounds.Append{},
	}
}
