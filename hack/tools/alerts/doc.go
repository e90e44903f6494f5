// Package alerts checks the alerts of config/prometheus with Prometheus' own parser. It is a module of its own, for that parser.
package alerts
