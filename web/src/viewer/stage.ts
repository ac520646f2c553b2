/** The 3D view: camera, drawing on demand, and finding the face under a pointer. */

import * as THREE from "three";
import { OrbitControls } from "three/examples/jsm/controls/OrbitControls.js";
import { surfaceMaterial } from "./material";
import type { Hit, Surface } from "./surface";

/** The part of the picture that the whole mesh fills. */
const MARGIN = 0.84;
const AXES = [0, 1, 2].flatMap((i) => [1, -1].map((sign) => new THREE.Vector3().setComponent(i, sign)));

export class Stage {
  readonly canvas: HTMLCanvasElement;
  private readonly renderer: THREE.WebGLRenderer;
  private readonly scene = new THREE.Scene();
  private readonly camera = new THREE.PerspectiveCamera(32, 1, 0.01, 50);
  readonly controls: OrbitControls;
  private readonly material = surfaceMaterial();
  private readonly caster = new THREE.Raycaster();
  private mesh: THREE.Mesh | null = null;
  private surface: Surface | null = null;
  private pending = false;

  constructor(private readonly box: HTMLElement) {
    this.renderer = new THREE.WebGLRenderer({ antialias: true, alpha: true, powerPreference: "high-performance" });
    this.renderer.setPixelRatio(Math.min(2, window.devicePixelRatio));
    this.canvas = this.renderer.domElement;
    this.canvas.tabIndex = 0;
    this.canvas.setAttribute("aria-label", "3D view. Arrow keys rotate, plus and minus zoom, Enter uses the tool at the center.");
    box.prepend(this.canvas);
    this.controls = new OrbitControls(this.camera, this.canvas);
    this.controls.enableDamping = true;
    this.controls.dampingFactor = 0.18;
    this.controls.zoomToCursor = true;
    this.controls.addEventListener("change", () => this.invalidate());
    new ResizeObserver(() => this.resize()).observe(box);
    this.fit();
  }

  show(surface: Surface): void {
    if (this.mesh) this.scene.remove(this.mesh);
    this.surface?.dispose();
    this.surface = surface;
    this.mesh = new THREE.Mesh(surface.geometry, this.material);
    this.scene.add(this.mesh);
    this.fit();
  }

  /** The whole mesh, seen from the front and a little above. */
  fit(): void {
    const back = new THREE.Vector3(0.42, 0.26, 1).normalize();
    const distance = this.distanceFrom(back);
    this.controls.target.set(0, 0, 0);
    this.camera.position.copy(back).multiplyScalar(distance);
    this.camera.near = distance / 200;
    this.camera.far = distance * 20;
    this.camera.updateProjectionMatrix();
    this.controls.update();
    this.invalidate();
  }

  /** How far the camera must stand back for every corner to lie in the middle part of the picture. */
  private distanceFrom(back: THREE.Vector3): number {
    const corners = this.surface?.geometry.getAttribute("position").array;
    const right = new THREE.Vector3(0, 1, 0).cross(back).normalize();
    const up = back.clone().cross(right);
    const slope = MARGIN * Math.tan((this.camera.fov * Math.PI) / 360);
    const wide = slope * this.camera.aspect;
    let distance = corners ? 0.1 : 4;
    for (let i = 0; corners && i < corners.length; i += 3) {
      const [x, y, z] = [corners[i], corners[i + 1], corners[i + 2]];
      const sideways = Math.abs(x * right.x + y * right.y + z * right.z) / wide;
      const upwards = Math.abs(x * up.x + y * up.y + z * up.z) / slope;
      distance = Math.max(distance, Math.max(sideways, upwards) + x * back.x + y * back.y + z * back.z);
    }
    return distance;
  }

  /** Shows some faces, with what is around them, from where most of them are seen; returns what is at the center. */
  approach(faces: number[]): Hit {
    const { camera, controls } = this, surface = this.surface!;
    const centers = faces.map((face) => surface.center(face, new THREE.Vector3()));
    const middle = new THREE.Vector3(), normal = new THREE.Vector3();
    faces.forEach((face, i) => {
      middle.addScaledVector(centers[i], 1 / faces.length);
      normal.addScaledVector(new THREE.Vector3().fromArray(surface.normals, 3 * face), surface.areas[face]);
    });
    const away = centers.map((center) => center.distanceTo(middle));
    const nearest = away.reduce((best, far, i) => (far < away[best] ? i : best), 0);
    const size = away.reduce((a, b) => Math.max(a, b)), target = centers[nearest];
    const whole = this.distanceFrom(new THREE.Vector3(0, 0, 1));
    const slope = Math.tan((camera.fov * Math.PI) / 360) * Math.min(1, camera.aspect);
    const distance = Math.min(whole, Math.max(0.35 * whole, (2 * size) / slope));
    const here = camera.position.clone().sub(controls.target);
    const ways = [normal, normal.clone().negate(), here, ...AXES].filter((way) => way.lengthSq() > 1e-12);
    const eyes = ways.map((way) => way.clone().normalize().multiplyScalar(distance).add(target));
    const step = Math.ceil(faces.length / 40);
    const sample = faces.filter((_, i) => i % step === 0);
    const seen = eyes.map((eye) => sample.filter((face) => surface.isSeen(face, eye)).length);
    controls.target.copy(target);
    camera.position.copy(eyes[seen.indexOf(Math.max(...seen))]);
    controls.update();
    this.invalidate();
    return { face: faces[nearest], point: target };
  }

  turn(right: number, up: number): void {
    const offset = this.camera.position.clone().sub(this.controls.target);
    const place = new THREE.Spherical().setFromVector3(offset);
    place.theta -= right;
    place.phi = Math.min(Math.PI - 0.02, Math.max(0.02, place.phi - up));
    this.camera.position.setFromSpherical(place).add(this.controls.target);
    this.controls.update();
    this.invalidate();
  }

  zoom(factor: number): void {
    this.camera.position.sub(this.controls.target).multiplyScalar(1 / factor).add(this.controls.target);
    this.controls.update();
    this.invalidate();
  }

  set lit(on: boolean) {
    this.material.uniforms.lighted.value = on;
    this.invalidate();
  }

  set edges(on: boolean) {
    this.material.uniforms.edges.value = on;
    this.invalidate();
  }

  set markColor(color: string) {
    this.material.uniforms.markColor.value.setStyle(color, THREE.LinearSRGBColorSpace);
    this.invalidate();
  }

  /** Outlines faces, and tints them with a color if one is given; an empty list takes the outline away. */
  mark(faces: ArrayLike<number>, tint?: ArrayLike<number>): void {
    if (!this.surface?.mark(faces)) return;
    const { markTint, markShare } = this.material.uniforms;
    if (tint) markTint.value.setRGB(tint[0] / 255, tint[1] / 255, tint[2] / 255);
    markShare.value = tint ? 0.35 : 0;
    this.invalidate();
  }

  invalidate(): void {
    if (this.pending) return;
    this.pending = true;
    requestAnimationFrame(() => {
      this.pending = false;
      this.controls.update(); // fires "change" while it still glides, which asks for the next frame
      this.renderer.render(this.scene, this.camera);
    });
  }

  /** The face under a place of the window, hidden ones aside. */
  find(x: number, y: number): Hit | null {
    if (!this.surface) return null;
    const bounds = this.canvas.getBoundingClientRect();
    const place = new THREE.Vector2(
      ((x - bounds.left) / bounds.width) * 2 - 1,
      1 - ((y - bounds.top) / bounds.height) * 2,
    );
    this.camera.updateMatrixWorld();
    this.caster.setFromCamera(place, this.camera);
    return this.surface.firstHit(this.caster.ray);
  }

  /** The faces whose centers are seen inside a line around a part of the window. */
  facesInside(line: [number, number][]): number[] {
    const { surface, camera } = this;
    if (!surface || line.length < 3) return [];
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    camera.updateMatrixWorld();
    const center = new THREE.Vector3(), shown = new THREE.Vector3();
    return Array.from({ length: surface.nFaces }, (_, face) => face).filter((face) => {
      shown.copy(surface.center(face, center)).project(camera);
      const x = left + ((shown.x + 1) / 2) * width, y = top + ((1 - shown.y) / 2) * height;
      return isInside(line, x, y) && surface.isSeen(face, camera.position);
    });
  }

  findCenter(): Hit | null {
    const { left, top, width, height } = this.canvas.getBoundingClientRect();
    return this.find(left + width / 2, top + height / 2);
  }

  private resize(): void {
    const { clientWidth: width, clientHeight } = this.box;
    // In a narrow window the tools are below the picture, and not on it.
    const height = clientHeight - parseFloat(getComputedStyle(this.box).paddingBottom);
    if (!width || height <= 0) return;
    const was = this.camera.aspect;
    this.camera.aspect = width / height;
    this.camera.updateProjectionMatrix();
    this.renderer.setSize(width, height);
    // Turning a phone must not cut the mesh off.
    if (Math.min(1, was) !== Math.min(1, this.camera.aspect)) this.zoom(Math.min(1, this.camera.aspect) / Math.min(1, was));
    this.invalidate();
  }
}

/** Whether a point lies within a closed line: a ray from it to the right crosses the line an odd number of times. */
function isInside(line: [number, number][], x: number, y: number): boolean {
  let inside = false;
  line.forEach(([ax, ay], i) => {
    const [bx, by] = line.at(i - 1)!;
    if (ay > y !== by > y && x < ax + ((bx - ax) * (y - ay)) / (by - ay)) inside = !inside;
  });
  return inside;
}
