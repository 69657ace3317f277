//! Claims in a real API server, with the provisioner and the resizer of Kubernetes, and with a
//! server and a driver on each of two nodes.

use super::lab::{ControlPlane, documents, packaging};
use super::program;
use crate::common::{in_scratch, program_of, weir, words};
use serde_json::{Value, json};
use std::process::Command;

const CLAIMS: &str = "/api/v1/namespaces/default/persistentvolumeclaims";

/// Starts a node: a server with a drive, the driver, and its sidecars.
fn node(lab: &mut ControlPlane, name: &str) -> Option<()> {
    let [provisioner, resizer] = [program("csi-provisioner")?, program("csi-resizer")?];
    let [serve, manage, csi, nbd] =
        ["toml", "manage", "csi", "nbd"].map(|end| lab.file(&format!("{name}.{end}")));
    let volumes = lab.file(&format!("volumes-{name}"));
    std::fs::create_dir_all(format!("{volumes}/fast")).expect("a directory");
    let text = format!(
        "[drive.fast]\ncapacity = {{ read = \"160MB/s\", write = \"120MB/s\" }}\n\
         [listen]\nnbd = [\"unix:{nbd}\"]\n[manage]\nsocket = \"{manage}\"\n"
    );
    std::fs::write(&serve, text).expect("a file");
    let mut server = weir(&lab.scratch, &format!("serve {serve}"));
    lab.run(&format!("serve-{name}"), &mut server);
    let line = format!("--node {name} --endpoint {csi} --socket {manage} --volumes {volumes}");
    let mut driver = in_scratch(&lab.scratch, &program_of("weir-csi"), &words(&line));
    lab.run(&format!("csi-{name}"), &mut driver);
    lab.wait("the driver", |lab| {
        lab.scratch.path(&format!("{name}.csi")).exists()
    });
    let (address, config) = (
        format!("--csi-address={csi}"),
        format!("--kubeconfig={}", lab.file("kubeconfig")),
    );
    let mut command = Command::new(provisioner);
    command.env("NODE_NAME", name).env("NAMESPACE", "default");
    command.args([&address, &config]).args(words(
        "--node-deployment --strict-topology --enable-capacity \
         --capacity-ownerref-level=-1 --capacity-poll-interval=1s --retry-interval-max=2s",
    ));
    lab.run(&format!("provisioner-{name}"), &mut command);
    let mut command = Command::new(resizer);
    command
        .args([&address, &config])
        .args(["--retry-interval-max=2s", "--timeout=60s"]);
    lab.run(&format!("resizer-{name}"), &mut command);
    // The following objects would be registered by kubelet.
    let node = json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { "topology.weir.csi/node": name } } });
    lab.apply(&node.to_string(), &format!("/api/v1/nodes/{name}"), false)
        .unwrap();
    let drivers =
        json!([{ "name": "weir.csi", "nodeID": name, "topologyKeys": ["topology.weir.csi/node"] }]);
    let node = json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": name }, "spec": { "drivers": drivers } });
    lab.apply(
        &node.to_string(),
        &format!("/apis/storage.k8s.io/v1/csinodes/{name}"),
        false,
    )
    .unwrap();
    Some(())
}

/// Creates a claim. There is no scheduler, so the annotation names the node that it would have
/// chosen.
fn claim(lab: &ControlPlane, name: &str, class: &str, attributes: &str, node: &str) {
    let object = json!({
        "apiVersion": "v1", "kind": "PersistentVolumeClaim",
        "metadata": { "name": name, "annotations": { "volume.kubernetes.io/selected-node": node } },
        "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeAttributesClassName": attributes,
            "resources": { "requests": { "storage": "64Mi" } },
        },
    });
    let (status, said) = lab.call("POST", CLAIMS, "application/json", &object.to_string());
    assert_eq!(status, 201, "{said}");
}

/// Returns the current state of the claim.
fn claimed(lab: &ControlPlane, name: &str) -> Value {
    lab.get(&format!("{CLAIMS}/{name}")).1
}

fn is_bound(lab: &ControlPlane, name: &str) -> bool {
    claimed(lab, name)["status"]["phase"] == "Bound"
}

/// Returns the response of a node's server.
fn server(lab: &ControlPlane, node: &str, path: &str) -> Value {
    let client =
        weir_manage::api::ManagementClient::new(&lab.scratch.path(&format!("{node}.manage")))
            .unwrap();
    client.get(path).unwrap()
}

/// Returns the names of the volumes of a node.
fn volumes(lab: &ControlPlane, node: &str) -> Vec<String> {
    let all = server(lab, node, "/v1/volumes");
    let names = all
        .as_array()
        .expect("a list")
        .iter()
        .map(|v| v["name"].as_str());
    names.map(|name| name.expect("a name").to_owned()).collect()
}

/// Returns the event about the refusal of a claim.
fn refusal(lab: &ControlPlane, name: &str) -> Option<String> {
    let (_, events) = lab.get("/api/v1/namespaces/default/events");
    let events = events["items"].as_array()?.iter();
    let of = events.filter(|e| e["involvedObject"]["name"] == name && e["type"] == "Warning");
    of.filter_map(|event| event["message"].as_str())
        .find(|said| said.contains("would add up"))
        .map(str::to_owned)
}

/// Returns the capacity that the scheduler sees for a class on a node, in bytes.
fn capacity(lab: &ControlPlane, class: &str, node: &str) -> Option<String> {
    let (_, all) = lab.get("/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities");
    let mut all = all["items"].as_array()?.iter();
    let of = all.find(|c| {
        c["storageClassName"] == class
            && c["nodeTopology"]["matchLabels"]["topology.weir.csi/node"] == node
    });
    Some(of?["capacity"].as_str()?.to_owned())
}

fn install(lab: &ControlPlane) {
    let chart = std::fs::read_to_string(packaging().join("weir.yaml")).expect("the manifests");
    let classes = std::fs::read_to_string(packaging().join("classes.yaml")).expect("the classes");
    let driver = documents(&chart)
        .into_iter()
        .filter(|(path, _)| path.contains("/csidrivers/"));
    for (path, text) in driver.chain(documents(&classes)) {
        lab.apply(&text, &path, false).unwrap();
    }
    let greedy = json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttributesClass", "metadata": { "name": "greedy" },
        "driverName": "weir.csi", "parameters": { "min": "100MB/s" },
    });
    let path = "/apis/storage.k8s.io/v1/volumeattributesclasses/greedy";
    lab.apply(&greedy.to_string(), path, false).unwrap();
}

#[test]
fn claims_become_volumes_with_contracts_that_change_and_are_refused_with_the_sums() {
    let Some(mut lab) = ControlPlane::start() else {
        return;
    };
    install(&lab);
    if ["a", "b"]
        .into_iter()
        .any(|name| node(&mut lab, name).is_none())
    {
        return;
    }
    let lab = &lab;
    claim(lab, "one", "weir", "silver", "a");
    let took = lab.wait("the first claim", |lab| is_bound(lab, "one"));
    println!(
        "a claim with a min of 10 MB/s is bound to a volume after {:.1} s",
        took.as_secs_f64()
    );
    let [volume] = &volumes(lab, "a")[..] else {
        panic!("{:?}", volumes(lab, "a"));
    };
    let path = weir_manage::api::path("volume", volume);
    let min = |node: &str| server(lab, node, &path)["contract"]["min_bytes_per_second"].clone();
    assert_eq!(min("a"), 10_000_000);

    changes_while_it_is_used(lab, volume, &min);
    refused_with_the_sums(lab);
    grows(lab, volume);

    for name in ["one", "two"] {
        lab.call(
            "DELETE",
            &format!("{CLAIMS}/{name}"),
            "application/json",
            "",
        );
    }
    let left = |lab: &ControlPlane| [volumes(lab, "a"), volumes(lab, "b")].concat().len();
    lab.wait("the end of the volumes", |lab| left(lab) == 0);
    let files = ["a", "b"].map(|node| std::fs::read_dir(lab.file(&format!("volumes-{node}/fast"))));
    let files = files
        .into_iter()
        .map(|all| all.expect("it is there").count())
        .sum::<usize>();
    println!(
        "after both claims are deleted there are {} volumes and {files} files",
        left(lab)
    );
    // Deleting the claims must delete the files as well.
    assert_eq!(files, 0);
}

/// Changes the contract while fio writes and verifies through the server, over one connection.
fn changes_while_it_is_used(lab: &ControlPlane, volume: &str, min: &dyn Fn(&str) -> Value) {
    let mut fio = Command::new("fio");
    fio.args(words(
        "--name=verified --ioengine=nbd --rw=randwrite --bs=16k --iodepth=8 \
         --size=64m --loops=2 --rate=8m --verify=crc32c --verify_state_save=0 --verify_fatal=1",
    ));
    fio.arg(format!(
        "--uri=nbd+unix:///{volume}?socket={}",
        lab.file("a.nbd")
    ));
    let log = std::fs::File::create(lab.scratch.path("fio.log")).expect("a log");
    let mut fio = fio.stdout(log).spawn().expect("fio is there");
    let path = weir_manage::api::path("volume", volume);
    let clients = || server(lab, "a", &path)["now"]["connections"].clone();
    lab.wait("fio", |_| clients() == 1);
    let claim = format!("{CLAIMS}/one");
    lab.patch(
        &claim,
        &json!({ "spec": { "volumeAttributesClassName": "gold" } }),
    );
    let is_gold = |lab: &ControlPlane| {
        claimed(lab, "one")["status"]["currentVolumeAttributesClassName"] == "gold"
    };
    let took = lab.wait("the change of the class", is_gold);
    assert_eq!(min("a"), 30_000_000);
    // If fio had ended before, the change would not have been tested under load.
    let running = fio.try_wait().expect("it can be asked").is_none();
    assert!(running && clients() == 1, "fio has ended before the change");
    let ended = fio.wait().expect("it ends");
    let said = lab.scratch.read("fio.log");
    assert!(ended.success() && said.contains("err= 0"), "{said}");
    println!(
        "a changed class changed the contract of the running client from 10 to 30 MB/s after {:.1} s; fio verified 128 MiB without an error",
        took.as_secs_f64()
    );
}

/// Checks that a claim for more than the drive can promise stays pending with the sums in its
/// event, and is bound to a node with enough capacity.
fn refused_with_the_sums(lab: &ControlPlane) {
    lab.wait("what the drives can promise", |lab| {
        capacity(lab, "weir-database", "a").is_some_and(|c| c != "0")
    });
    // The class `greedy` has a min of 100 MB/s. Together with the 30 MB/s of the first claim, it
    // exceeds the 108 MB/s of a node.
    claim(lab, "two", "weir", "greedy", "a");
    lab.wait("the refusal", |lab| refusal(lab, "two").is_some());
    assert_eq!(claimed(lab, "two")["status"]["phase"], "Pending");
    let said = refusal(lab, "two").unwrap_or_default();
    println!("an overcommitted claim stays pending: {said}");
    assert!(
        said.contains("130MB/s") && said.contains("108MB/s"),
        "{said}"
    );
    // The provisioner has removed the choice of the node, so the scheduler can choose again.
    let chosen = |lab: &ControlPlane| {
        claimed(lab, "two")["metadata"]["annotations"]["volume.kubernetes.io/selected-node"].clone()
    };
    lab.wait("the node to be given back", |lab| chosen(lab).is_null());
    let annotations = json!({ "volume.kubernetes.io/selected-node": "b" });
    lab.patch(
        &format!("{CLAIMS}/two"),
        &json!({ "metadata": { "annotations": annotations } }),
    );
    let took = lab.wait("the second claim", |lab| is_bound(lab, "two"));
    println!(
        "the same claim is bound on the other node after {:.1} s",
        took.as_secs_f64()
    );
    assert_eq!((volumes(lab, "a").len(), volumes(lab, "b").len()), (1, 1));
    // 50 MB/s fit next to 30 MB/s on node a, but not next to 100 MB/s on node b, because the drive
    // can promise 108 MB/s.
    lab.wait("what is left to be told", |lab| {
        capacity(lab, "weir-database", "b").as_deref() == Some("0")
            && capacity(lab, "weir-database", "a").is_some_and(|c| c != "0")
    });
    println!(
        "the scheduler is told that a class with a min of 50 MB/s has room on node a and none on node b"
    );
}

/// Checks that a larger claim enlarges the volume while it is served. The file system would be
/// resized by kubelet, which is not there.
fn grows(lab: &ControlPlane, volume: &str) {
    let size = json!({ "spec": { "resources": { "requests": { "storage": "128Mi" } } } });
    lab.patch(&format!("{CLAIMS}/one"), &size);
    let path = weir_manage::api::path("volume", volume);
    let took = lab.wait("the larger volume", |lab| {
        server(lab, "a", &path)["size_bytes"] == 128 << 20
    });
    lab.wait("the larger claim", |lab| {
        let status = &claimed(lab, "one")["status"];
        let resizes = status["conditions"].as_array();
        resizes.is_some_and(|all| all.iter().any(|c| c["type"] == "FileSystemResizePending"))
    });
    println!(
        "a larger claim has a larger volume after {:.1} s",
        took.as_secs_f64()
    );
}
