package apicases

import "fmt"

// templateHolder is where a kind keeps a pod template.
type templateHolder struct {
	base Base
	name string
	// wrap is the format of a merge patch around one of the template.
	wrap string
}

var (
	producerTemplate = templateHolder{base: Flow, name: "producer", wrap: `{spec: {producer: {template: %s}}}`}
	poolTemplate     = templateHolder{base: Pool, name: "pool", wrap: `{spec: {template: %s}}`}
)

// templateCase is a case of a pod template, wherever it is embedded.
type templateCase struct {
	name     string
	template string
	refused  string
}

func (c templateCase) in(holder templateHolder) Case {
	return Case{
		Name:    fmt.Sprintf("in the template of a %s: %s", holder.name, c.name),
		Base:    holder.base,
		Object:  []string{fmt.Sprintf(holder.wrap, templateBase), fmt.Sprintf(holder.wrap, c.template)},
		Refused: c.refused,
	}
}

const templateBase = `{spec: {containers: [{name: app, image: example.test/app}]}}`

const reservedPorts = "ports 9440, 9441, 9443 and 9444 belong to the sidecar"

var templateCases = []templateCase{
	{name: "nothing but a container", template: `{}`},
	{name: "no container", template: `{spec: {containers: []}}`, refused: "spec.containers must hold at least one container"},
	{name: "containers left out", template: `{spec: {containers: null}}`, refused: "Required value"},

	{name: "restartPolicy Always", template: `{spec: {restartPolicy: Always}}`},
	{name: "restartPolicy OnFailure", template: `{spec: {restartPolicy: OnFailure}}`, refused: "spec.restartPolicy must be Always"},
	{name: "restartPolicy Never", template: `{spec: {restartPolicy: Never}}`, refused: "spec.restartPolicy must be Always"},
	{name: "activeDeadlineSeconds", template: `{spec: {activeDeadlineSeconds: 60}}`, refused: "spec.activeDeadlineSeconds must be left out"},
	{name: "hostNetwork off", template: `{spec: {hostNetwork: false}}`},
	{name: "hostNetwork", template: `{spec: {hostNetwork: true}}`, refused: "spec.hostNetwork must be left out"},
	{name: "shared processes off", template: `{spec: {shareProcessNamespace: false, hostPID: false}}`},
	{name: "shared processes", template: `{spec: {shareProcessNamespace: true}}`, refused: "spec.shareProcessNamespace and spec.hostPID must be left out"},
	{name: "processes of the host", template: `{spec: {hostPID: true}}`, refused: "spec.shareProcessNamespace and spec.hostPID must be left out"},
	{name: "ephemeral containers", template: `{spec: {ephemeralContainers: [{name: debug, image: example.test/debug}]}}`, refused: "must have at most 0 items"},

	{name: "a port of its own", template: `{spec: {containers: [{name: app, ports: [{containerPort: 8080}, {containerPort: 9442}]}]}}`},
	{name: "port 9440", template: `{spec: {containers: [{name: app, ports: [{containerPort: 9440}]}]}}`, refused: reservedPorts},
	{name: "port 9441", template: `{spec: {containers: [{name: app, ports: [{containerPort: 9441}]}]}}`, refused: reservedPorts},
	{name: "port 9443", template: `{spec: {containers: [{name: app, ports: [{containerPort: 8080}, {containerPort: 9443}]}]}}`, refused: reservedPorts},
	{name: "port 9444 in the second container", template: `{spec: {containers: [{name: app}, {name: b, ports: [{containerPort: 9444}]}]}}`, refused: reservedPorts},
	{name: "port 9444 in a sidecar", template: `{spec: {initContainers: [{name: b, restartPolicy: Always, ports: [{containerPort: 9444}]}]}}`, refused: reservedPorts},

	{name: "a sidecar of its own", template: `{spec: {initContainers: [{name: proxy, restartPolicy: Always}]}}`},
	{name: "a reserved container name", template: `{spec: {containers: [{name: workpulling-app}]}}`, refused: "container names that start with workpulling- are reserved"},
	{name: "a reserved init container name", template: `{spec: {initContainers: [{name: workpulling-x}]}}`, refused: "container names that start with workpulling- are reserved"},
	{name: "a name that only holds the prefix", template: `{spec: {containers: [{name: my-workpulling-app}]}}`},
	{name: "a volume of its own", template: `{spec: {volumes: [{name: scratch, emptyDir: {}}]}}`},
	{name: "a reserved volume name", template: `{spec: {volumes: [{name: workpulling-run, emptyDir: {}}]}}`, refused: "volume names that start with workpulling- are reserved"},

	{name: "labels and annotations of its own", template: `{metadata: {labels: {app: packer}, annotations: {example.test/team: eu}}}`},
	{name: "a reserved label", template: `{metadata: {labels: {workpulling.dev/pool: packers}}}`, refused: "labels and annotations that start with workpulling.dev/ are reserved"},
	{name: "a reserved annotation", template: `{metadata: {annotations: {workpulling.dev/victim: please}}}`, refused: "labels and annotations that start with workpulling.dev/ are reserved"},
}
