//! The identity service: the driver's name and capabilities, and the state of its server.

use tonic::{Request, Response, Status};

use crate::driver::CsiService;
use crate::rpc::identity_server::Identity;
use crate::rpc::plugin_capability::service::Type as Can;
use crate::rpc::plugin_capability::volume_expansion::Type as Grows;
use crate::rpc::plugin_capability::{self, Type, VolumeExpansion};
use crate::rpc::{
    GetPluginCapabilitiesRequest, GetPluginCapabilitiesResponse, GetPluginInfoRequest,
    GetPluginInfoResponse, PluginCapability, ProbeRequest, ProbeResponse,
};

#[tonic::async_trait]
impl Identity for CsiService {
    async fn get_plugin_info(
        &self,
        _: Request<GetPluginInfoRequest>,
    ) -> Result<Response<GetPluginInfoResponse>, Status> {
        Ok(Response::new(GetPluginInfoResponse {
            name: self.0.options.name.clone(),
            vendor_version: env!("CARGO_PKG_VERSION").to_owned(),
            ..GetPluginInfoResponse::default()
        }))
    }

    async fn get_plugin_capabilities(
        &self,
        _: Request<GetPluginCapabilitiesRequest>,
    ) -> Result<Response<GetPluginCapabilitiesResponse>, Status> {
        // A volume can be reached only from its own node.
        let services = [Can::ControllerService, Can::VolumeAccessibilityConstraints];
        let services =
            services.map(|can| Type::Service(plugin_capability::Service { r#type: can.into() }));
        // A volume can grow while it is in use.
        let grows = Type::VolumeExpansion(VolumeExpansion {
            r#type: Grows::Online.into(),
        });
        let all = services.into_iter().chain([grows]);
        Ok(Response::new(GetPluginCapabilitiesResponse {
            capabilities: all.map(|t| PluginCapability { r#type: Some(t) }).collect(),
        }))
    }

    /// Reports the driver as not ready while the server does not respond. It is not an error,
    /// because a restart of the driver would not help.
    async fn probe(&self, _: Request<ProbeRequest>) -> Result<Response<ProbeResponse>, Status> {
        self.answer("Probe", |driver| {
            let status = driver.volumes().and_then(|volumes| volumes.status());
            Ok(ProbeResponse {
                ready: Some(status.is_ok_and(|status| status.ready)),
            })
        })
        .await
    }
}
