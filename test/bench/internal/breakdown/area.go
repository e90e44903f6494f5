package breakdown

import "strings"

// area is a part of the program that CPU is spent in.
type area struct {
	name string
	// functions are prefixes of names with their import path.
	functions []string
}

// collector is found first: what marks and sweeps does so below all kinds of functions.
var collector = area{"garbage collection", []string{
	"runtime.gcBgMarkWorker", "runtime.gcAssistAlloc", "runtime.bgsweep", "runtime.bgscavenge", "runtime.gcStart", "runtime.gcMarkTermination",
	"runtime.gcMarkDone", "runtime.wbBufFlush", "gcWriteBarrier", "runtime.(*sweepLocked)", "runtime.deductSweepCredit",
}}

// areas are tried in this order for each function, from the innermost outwards.
var areas = []area{
	{"system calls", []string{"internal/runtime/syscall.", "syscall.", "runtime.futex", "runtime.usleep", "runtime.epollwait", "runtime.netpoll", "runtime.write1"}},
	{"scheduling and channels", []string{
		"runtime.schedule", "runtime.findRunnable", "runtime.park_m", "runtime.gosched", "runtime.goready", "runtime.ready", "runtime.selectgo", "runtime.chansend",
		"runtime.chanrecv", "runtime.mcall", "runtime.mstart", "runtime.wakep", "runtime.startm", "runtime.stealWork", "runtime.runqgrab", "runtime.lock", "runtime.unlock",
		"runtime.nanotime", "runtime.(*timers)", "runtime.(*timer)", "runtime.newproc", "runtime.goexit0", "runtime.sysmon", "runtime.semasleep", "runtime.semrelease",
		"runtime.semacquire", "sync.", "internal/sync.", "context.", "time.",
	}},
	{"allocation", []string{"runtime.mallocgc", "runtime.newobject", "runtime.makeslice", "runtime.growslice", "runtime.mapassign", "runtime.morestack", "runtime.newstack"}},
	{"TLS and digests", []string{"crypto/"}},
	{"protobuf", []string{"google.golang.org/protobuf"}},
	{"gRPC", []string{"google.golang.org/grpc", "golang.org/x/net/"}},
	{"HTTP", []string{"net/http", "net/textproto", "net/url", "mime"}},
	{"JSON", []string{"encoding/json", "encoding/base64"}},
	{"bbolt", []string{"go.etcd.io/bbolt"}},
	{"PostgreSQL driver", []string{"github.com/jackc/"}},
	{"wire and transport", []string{modulePath + "/runtime/protocol", modulePath + "/runtime/transport"}},
	{"delivery machines", []string{modulePath + "/runtime/delivery"}},
	{"queue", []string{modulePath + "/runtime/queue"}},
	{"sidecars", []string{modulePath + "/sidecar", modulePath + "/cmd/"}},
	{"driver and apps", []string{modulePath + "/test/bench", "main."}},
	{"endpoints and Go API", []string{modulePath + "/runtime/", modulePath + "."}},
}

const (
	modulePath = "github.com/workpulling/workpulling"
	other      = "other"
)

// areaOf is where a stack belongs, given from the innermost function outwards.
func areaOf(stack []string) string {
	for _, function := range stack {
		if collector.has(function) {
			return collector.name
		}
	}
	for _, function := range stack {
		for _, a := range areas {
			if a.has(function) {
				return a.name
			}
		}
	}
	return other
}

func (a area) has(function string) bool {
	for _, prefix := range a.functions {
		if strings.HasPrefix(function, prefix) {
			return true
		}
	}
	return false
}
